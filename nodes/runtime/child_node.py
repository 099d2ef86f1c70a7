"""The argument of a node's process that the command of a fleet starts.

Settings travel in the environment. A person gives the same to `holon node` as options. Typer converts those, and
imports pydantic for it, which is 0.18 s of CPU that a child need not spend.
"""

from __future__ import annotations

from typing import Final

import msgspec

from nodes.python_process import module_command

MODULE: Final = "nodes.cli.child_node"
"""The module that a child runs; it lies above this one, so it is named and not imported."""


class JobNode(msgspec.Struct, frozen=True, kw_only=True, tag="job", tag_field="kind", forbid_unknown_fields=True):
    """A node of a streaming job.

    ``job``: ``MODULE:JOB``; ``number``: for people; ``until``: by partition, the end of the input that the fleet is
    about to declare, () if it declares none; ``parent``: a process id.
    """

    job: str
    number: int
    expected: int = 1
    until: tuple[int, ...] = ()
    accept_code: bool = False
    parent: int | None = None


class ProgramNode(
    msgspec.Struct, frozen=True, kw_only=True, tag="program", tag_field="kind", forbid_unknown_fields=True
):
    """A node of a transactional job. ``program``: ``MODULE:PROGRAM``; the others as ``JobNode`` has them."""

    program: str
    number: int
    sequencers: int
    accept_code: bool = False
    parent: int | None = None


def child_command(node: JobNode | ProgramNode) -> list[str]:
    """The command that starts the node as a child process."""
    return module_command(MODULE, msgspec.json.encode(node).decode())


def parse_child_node(argument: str) -> JobNode | ProgramNode:
    """The inverse of ``child_command``, from its last word. Raises ``msgspec.DecodeError``."""
    return msgspec.json.decode(argument, type=JobNode | ProgramNode)
