"""Decisions of autoscalers on the control topic: the first of its number wins, and checkpoints keep them."""

from __future__ import annotations

import json

import msgspec
import pytest

from nodes.machine import messages as m
from nodes.machine.control_state import (
    ControlCheckpoint,
    ControlState,
    decode_control_checkpoint,
    encode_control_checkpoint,
)
from nodes.machine.ownership.commands import AUTOSCALE
from nodes.machine.ownership.decisions import KEPT_DECISIONS
from nodes.machine.ownership.ownership import Ownership


def decision(number: int, by: str = "one") -> str:
    return json.dumps({"number": number, "by": by})


def folded(*arguments: str, owners_save: bool = True) -> Ownership:
    made = Ownership(2, owners_save=owners_save)
    made.apply(m.JobStarted(1, "job", 2))
    for each in arguments:
        assert made.apply(m.Command(1, AUTOSCALE, each)) == []
    return made


def without_decisions(whole: Ownership) -> Ownership:
    """Read from a checkpoint of the topic by a release before."""
    made = Ownership(2, owners_save=True)
    made.restore(msgspec.structs.replace(whole.snapshot(), decisions=None))
    return made


def test_the_first_decision_of_its_number_wins() -> None:
    made = folded(decision(1), decision(1, "two"), decision(2, "two"), decision(1), decision(2))
    assert made.decisions.kept == [decision(1), decision(2, "two")] and made.decisions.number == 2
    assert made.decisions.next_number(900) == 3


def test_who_reads_from_a_checkpoint_of_a_release_before_agrees_on_the_next_decision() -> None:
    whole = folded(decision(1), decision(2))
    lost = without_decisions(whole)
    assert lost.decisions.is_lost and lost.snapshot().decisions is None
    number = lost.decisions.next_number(7)  # the topic has seven records at least: no decision has a larger number
    for each in (whole, lost):
        each.apply(m.Command(1, AUTOSCALE, decision(number, "new")))
        each.apply(m.Command(1, AUTOSCALE, decision(number, "late")))
        assert each.decisions.kept[-1] == decision(8, "new")
    assert lost.decisions.kept == [decision(8, "new")] and lost.decisions.next_number(99) == 9
    again = without_decisions(whole)
    again.apply(m.Command(1, AUTOSCALE, decision(9, "one that knew all")))
    assert again.decisions.kept and again.decisions.next_number(99) == 10


def test_a_checkpoint_without_the_field_is_one_of_a_release_before() -> None:
    raw = msgspec.msgpack.decode(msgspec.msgpack.encode(folded(decision(1)).snapshot()))
    assert msgspec.convert(raw[:-1], ControlState).decisions is None
    assert folded().snapshot().decisions == [], "none was made, and that is known"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"number":"1"}', '{"number":0}', '{"number":-2}', "\ud800", "[" * 5000]
)
def test_what_is_no_next_decision_is_passed_over(text: str) -> None:
    assert folded(text).decisions.kept == []


def test_a_checkpoint_of_the_topic_has_the_newest() -> None:
    made = folded(*(decision(number) for number in range(1, KEPT_DECISIONS + 4)))
    data = encode_control_checkpoint(ControlCheckpoint(7, made.snapshot()))
    restored = Ownership.restored(decode_control_checkpoint(data).state)
    assert restored.decisions.kept == [decision(number) for number in range(4, KEPT_DECISIONS + 4)]
    assert restored.digest() == made.digest() and restored.decisions.number == KEPT_DECISIONS + 3


def test_nodes_of_the_release_before_pass_it_over_and_streaming_jobs_have_none() -> None:
    assert m.Command(1, AUTOSCALE, decision(1)).format == m.NUMBERED_VERSION
    assert folded(decision(1), owners_save=False).decisions.kept == []
