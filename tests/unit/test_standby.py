"""A standby holds back, steps in where the owner is late and not before, and takes over in place."""

from __future__ import annotations

import pytest

from holon.identity import OutputId, Track
from holon.outbox import Run
from nodes.machine import messages as m
from nodes.machine.holding import Awaited, HeldDeltas, HeldOutputs, Logged
from nodes.machine.standby import Patience, Standby
from tests.unit.node_dialogue import Dialogue, joined
from wcrdt.replica import SlotDelta
from wcrdt.slots import TrackDelta

TO = ("main", 0)
LATE_MS = 20


def results(*positions: int) -> dict[tuple[str, int], Run]:
    run = Run()
    for position in positions:
        run.values.append(str(position).encode())
        run.headers.append(OutputId("job", 0, 0, Track.RECORD, position, 0).to_bytes())
        run.keys.append(None)
    return {TO: run}


def delta(record: int, window: int) -> SlotDelta:
    return SlotDelta(0, 0, TrackDelta((0, 0), (record, 0), record, []), TrackDelta((0, 0), (window, 0), window, []))


def seen(outputs: HeldOutputs, through: int, end: int) -> None:
    """The log shows the results from the first one to ``through``."""
    outputs.saw(TO, 0, end, {int(Track.RECORD): [((1, 0), (through, 0))]}, now_ms=0)


def standby_of_a(**settings: object) -> Dialogue:
    """Node b, beside the owner a, with the partition running."""
    node = joined("b", others=["a"], replicas=2, **settings)
    node.control(m.Claim(0, "a", 0, 1))
    node.tick()
    (runner,) = node.node.work.runners.values()
    node.run_partition(0, runner.key)
    node.take()
    return node


def held_values(outputs: HeldOutputs) -> list[bytes]:
    return [value for run in outputs.take(0).values() for value in run.values]


@pytest.mark.parametrize(("through", "left"), [(0, [b"1", b"2", b"3"]), (1, [b"2", b"3"]), (2, [b"3"]), (3, [])])
def test_results_are_forgotten_up_to_what_the_log_shows_and_no_further(through: int, left: list[bytes]) -> None:
    outputs = HeldOutputs(LATE_MS)
    outputs.begin({}, {TO: 0})
    outputs.hold(results(1, 2, 3), now_ms=0)
    seen(outputs, through, 1)
    assert outputs.count == len(left)
    assert held_values(outputs) == left


def test_result_that_the_log_shows_already_is_not_held() -> None:
    outputs = HeldOutputs(LATE_MS)
    outputs.begin({TO: {int(Track.RECORD): (2, 0)}}, {TO: 2})
    outputs.hold(results(1, 2, 3), now_ms=0)
    assert held_values(outputs) == [b"3"]


@pytest.mark.parametrize(
    ("logged", "held"), [(Logged((5, 0), (4, 0)), 1), (Logged((4, 0), (5, 0)), 1), (Logged((5, 0), (5, 0)), 0)]
)
def test_delta_is_held_until_both_of_its_tracks_are_on_the_log(logged: Logged, held: int) -> None:
    deltas = HeldDeltas(LATE_MS)
    deltas.hold(delta(5, 5), Awaited(), now_ms=0)
    deltas.forget(logged)
    assert len(deltas) == held


def test_owner_is_late_at_the_end_of_the_patience_and_not_before() -> None:
    standby = Standby(Patience.of(LATE_MS, 50, rank=0), rank=0)
    standby.fed(1, None, more=False, now_ms=0)
    standby.outputs.begin({}, {TO: 0})
    standby.outputs.hold(results(1), now_ms=100)
    standby.judge(1, Logged(), now_ms=100 + LATE_MS - 1)
    assert not standby.outputs.lead.active
    standby.judge(1, Logged(), now_ms=100 + LATE_MS)
    assert standby.outputs.lead.active


def test_lead_goes_back_to_an_owner_that_keeps_pace() -> None:
    outputs = HeldOutputs(LATE_MS)
    outputs.begin({}, {TO: 0})
    outputs.hold(results(1, 2, 3), now_ms=0)
    outputs.lead.take()
    held_values(outputs)
    seen(outputs, 3, 3)  # its own come back
    assert outputs.lead.active
    outputs.saw(TO, 3, 4, {int(Track.RECORD): [((4, 0), (4, 0))]}, now_ms=5)
    assert not outputs.lead.active


def test_standby_writes_nothing_and_publishes_what_it_holds_when_it_is_promoted() -> None:
    node = standby_of_a()
    runner = node.node.work.runners[0]
    node.records(0, runner.key, 0, {"ts": 3}, {"ts": 12})
    assert "write" not in node.take()
    node.control(m.Claim(0, "b", 0, 2))
    said = node.take()
    assert "write main[0] v" in said and '10: {"end":10,"count":1}' in said
    assert "load" not in said, "it goes on in place"
    assert node.node.work.runners[0] is runner and runner.standby is None
