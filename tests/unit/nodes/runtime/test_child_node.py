"""Tests of the argument that a fleet's command gives to the process of a node."""

from __future__ import annotations

import sys

import msgspec
import pytest

from nodes.runtime.child_node import JobNode, ProgramNode, child_command, parse_child_node


@pytest.mark.parametrize(
    "asked",
    [
        JobNode(job="module:job?text=é \"'", number=3, expected=4, until=(7, 0), accept_code=True, parent=99),
        JobNode(job="module:job", number=0),
        ProgramNode(program="module:program", number=1, sequencers=4, parent=7),
    ],
)
def test_child_reads_what_its_parent_asked_for(asked: JobNode | ProgramNode) -> None:
    interpreter, *_, argument = child_command(asked)
    assert interpreter == sys.executable
    assert parse_child_node(argument) == asked


@pytest.mark.parametrize(
    "argument", ["", "{}", '{"kind": "job"}', '{"kind": "job", "job": "a:b", "number": 1, "x": 2}']
)
def test_other_arguments_are_refused(argument: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        parse_child_node(argument)
