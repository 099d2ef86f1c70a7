"""Standbys of jobs with an idle timeout: nothing of theirs is final before the broadcast has accepted it."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.idle_partitions import REQUEST_MS
from nodes.machine.standby.standby import PROBE_RECORDS
from tests.unit.node_dialogue import Dialogue, joined, running, show_broadcast
from tests.unit.nodes.machine.test_standby_dialogues import KEY, LATE, MAIN, PATIENCE_MS, idle_job, wait, written
from wcrdt.replica.replica import Punctuation, SlotDelta
from wcrdt.replica.slots import WINDOW_START, TrackDelta, WindowChange

TIMEOUT_MS = 100
STEPS = 12
"""Of 10 ms: the idle timeout is over."""


def idle_standby(partitions: int = 1, **settings: Any) -> Dialogue:
    """A standby of partition 0, of which the owner has sent the first record; ``a`` owns the others, too."""
    node = joined("b", partitions, others=["a"], replicas=2, standby_after_ms=PATIENCE_MS, job=idle_job(), **settings)
    node.control(*(m.Claim(0, "a", partition, 1) for partition in range(partitions)))
    for partition in range(partitions):
        node.loaded(partition, KEY - partition)
        ends = {("main", to): 0 for to in range(partitions)}
        node.step(e.TailRead(partition, KEY - partition, {}, ends), "tail")
        node.broadcast(partition, delta_of(partition, 0, 1, 1))
    wait(node, 1)
    for partition in range(partitions):
        node.records(partition, KEY - partition, 0, {"ts": 1})
    wait(node, 2)
    node.take()
    return node


def delta_of(partition: int, since: int, to: int, watermark_ms: int, step: int = 0, count: int = 0) -> bytes:
    """The owner's broadcast behind so many punctuations, the last of them at ``since``; the first record is at 1 ms."""
    changes = [WindowChange("count", 0, 10, [[partition, 1]])] if since == 0 else []
    track = TrackDelta((since, step), (to, 0), watermark_ms, changes)
    window = TrackDelta(WINDOW_START, (watermark_ms, 0), watermark_ms, [])
    return m.encode(m.SlotSent(0, SlotDelta(partition, count, track, window)))


def punctuation(partition: int, after: int, step: int, watermark_ms: int) -> bytes:
    return m.encode(m.PunctuationSent(0, Punctuation(partition, (after, step), watermark_ms)))


def wanted(node: Dialogue) -> list[tuple[int, int, int | None]]:
    return [(one.partition, one.offset, one.limit) for one in node.node.wanted()]


def broadcast(effects: list[x.Effect]) -> list[str]:
    return [show_broadcast(effect.value) for effect in effects if isinstance(effect, x.WriteBroadcast)]


def asked(node: Dialogue) -> list[tuple[int, int]]:
    return [(one.partition, one.offset) for one in node.node.silent_inputs()]


def is_level(node: Dialogue) -> bool:
    standby = node.node.work.runners[0].standby
    return standby is not None and standby.level


# --- what is read and held --------------------------------------------------------------------------------------------


def test_a_standby_reads_beyond_the_owners_deltas_once_it_has_seen_all_of_the_broadcast() -> None:
    """Else it would cross punctuations that are on the log already."""
    node = joined("b", others=["a"], replicas=2, standby_after_ms=PATIENCE_MS, job=idle_job())
    node.control(m.Claim(0, "a", 0, 1))
    node.loaded(0, KEY)
    node.step(e.TailRead(0, KEY, {}, {MAIN: 0}), "tail")
    node.broadcast(0, delta_of(0, 0, 2, 12))
    assert wanted(node) == [(0, 0, 2)]
    node.records(0, KEY, 0, {"ts": 3}, {"ts": 12})
    assert wanted(node) == [] and not is_level(node)
    wait(node, 1)
    assert wanted(node) == [(0, 2, 2 + PROBE_RECORDS)] and is_level(node)


def test_what_a_standby_has_made_counts_when_the_broadcast_has_accepted_it() -> None:
    node = idle_standby()
    node.records(0, KEY, 1, {"ts": 12})
    assert node.node.replica.frontier_ms == 1, "a punctuation may still come before it"
    assert written(node.effects) == []
    node.broadcast(0, delta_of(0, 1, 2, 12))
    assert node.node.replica.frontier_ms == 12


def test_where_the_owner_is_late_the_delta_is_published_and_results_when_it_is_back() -> None:
    node = idle_standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.take()
    wait(node, LATE - 2)
    assert "write" not in node.take()
    found = wait(node, 2)
    assert written(found) == ["WriteBroadcast"]
    own = [effect.value for effect in found if isinstance(effect, x.WriteBroadcast)]
    node.take()
    node.broadcast(0, *own)
    assert '  write main[0] v-1: 10: {"end":10,"count":1}' in node.take().splitlines()


def test_a_delta_that_the_owner_sent_is_not_sent_again() -> None:
    node = idle_standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.broadcast(0, delta_of(0, 1, 2, 12))
    assert not any("delta 1-2" in line for line in broadcast(wait(node, 5 * LATE)))


def test_a_punctuation_that_was_first_makes_work_void() -> None:
    """A result of it must not leave, whatever else is late."""
    node = idle_standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.take()
    node.broadcast(0, punctuation(0, 1, 0, 40))
    assert "  load [0] v-1 []" in node.take().splitlines()
    node.loaded(0, KEY)
    node.step(e.TailRead(0, KEY, {}, {MAIN: 0}), "tail")
    assert written(wait(node, 3 * LATE)) == []
    assert node.node.work.replicas.restarts == 1
    assert wanted(node) == [(0, 0, 1)], "the punctuation is applied where it lies"


def test_its_own_delta_that_came_second_is_void_too() -> None:
    node = idle_standby()
    node.records(0, KEY, 1, {"ts": 12})
    own = [effect.value for effect in wait(node) if isinstance(effect, x.WriteBroadcast)]
    assert own
    node.broadcast(0, punctuation(0, 1, 0, 40), *own)
    slot = node.node.replica.slots[0]
    assert (slot.record.position, slot.record.watermark_ms, slot.punctuation_count) == ((1, 1), 40, 1)
    assert "WriteOutput" not in written(node.effects)


# --- an idle partition's next record ----------------------------------------------------------------------------------


def test_the_first_record_of_an_idle_partition_waits_for_punctuations_that_are_on_their_way() -> None:
    node = idle_standby()
    node.broadcast(0, punctuation(0, 1, 0, 20))
    node.records(0, KEY, 1, {"ts": 30})
    assert wanted(node) == [], "it is on the log, and does not have to be read again and again"
    assert node.node.work.replicas.patience_ms <= PATIENCE_MS
    node.broadcast(0, punctuation(0, 1, 1, 25))
    assert node.node.work.replicas.restarts == 0
    node.records(0, KEY, 1, {"ts": 30})
    wait(node, PATIENCE_MS // 10)
    assert wanted(node) != []
    node.records(0, KEY, 1, {"ts": 30})
    assert node.node.work.runners[0].task.next_offset == 2


@pytest.mark.parametrize(("silent_ms", "is_taken"), [(20, True), (30, False)])
def test_a_record_that_comes_while_the_silence_may_end_waits_too(silent_ms: int, is_taken: bool) -> None:
    node = idle_standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.broadcast(0, delta_of(0, 1, 2, 12))
    wait(node, silent_ms // 10)  # and two steps more
    node.records(0, KEY, 2, {"ts": 22})
    assert (node.node.work.runners[0].task.next_offset == 3) is is_taken


def test_after_the_owners_delta_the_record_is_taken_at_once() -> None:
    node = idle_standby()
    node.broadcast(0, punctuation(0, 1, 0, 20))
    node.records(0, KEY, 1, {"ts": 30})
    node.broadcast(0, delta_of(0, 1, 2, 30, step=1, count=1))
    assert wanted(node) != []
    node.records(0, KEY, 1, {"ts": 30})
    assert node.node.work.runners[0].task.position == (2, 0)


def test_an_owner_takes_no_record_while_its_punctuation_is_on_its_way() -> None:
    node = running(partitions=2, job=idle_job(), failure_timeout_ms=50)
    for partition in range(2):
        node.records(partition, 1, 0, {"ts": 10 * partition})
        node.broadcast(partition, *own_broadcast(node, partition))
    for _ in range(STEPS):
        node.tick()
    node.step(e.InputEndRequested(0, 1, 1, 1), "end")
    sent = own_broadcast(node, 0)
    assert [show_broadcast(value) for value in sent] == ["punctuation after 1 at 10"]
    assert [at for at, *_ in wanted(node)] == [1]
    node.broadcast(0, *sent)
    assert [at for at, *_ in wanted(node)] == [0, 1]


def test_a_punctuation_that_is_lost_holds_its_partition_no_longer_than_a_failure() -> None:
    node = running(partitions=2, job=idle_job(), failure_timeout_ms=50)
    for partition in range(2):
        node.records(partition, 1, 0, {"ts": 10 * partition})
        node.broadcast(partition, *own_broadcast(node, partition))
    for _ in range(STEPS):
        node.tick()
    node.step(e.InputEndRequested(0, 1, 1, 1), "end")
    for _ in range(4):
        node.tick()
    assert [at for at, *_ in wanted(node)] == [1]
    node.tick()
    assert [at for at, *_ in wanted(node)] == [0, 1]


def own_broadcast(node: Dialogue, partition: int) -> list[bytes]:
    return [
        effect.value
        for effect in node.effects
        if isinstance(effect, x.WriteBroadcast) and effect.partition == partition
    ]


# --- punctuations of standbys -----------------------------------------------------------------------------------------


def moved(node: Dialogue, partition: int, offset: int, watermark_ms: int) -> None:
    """The owner of another partition sends a record's delta."""
    node.records(partition, KEY - partition, offset, {"ts": watermark_ms})
    node.broadcast(partition, delta_of(partition, offset, offset + 1, watermark_ms))


def silent_standby() -> Dialogue:
    """The owner has said that partition 0 is idle."""
    node = idle_standby(partitions=2)
    wait(node, STEPS)
    node.broadcast(0, punctuation(0, 1, 0, 1))
    return node


def test_a_standby_asks_for_ends_only_where_the_owner_is_late_with_a_punctuation() -> None:
    node = silent_standby()
    moved(node, 1, 1, 50)
    assert asked(node) == []
    wait(node, (PATIENCE_MS + REQUEST_MS) // 10 - 1)
    assert asked(node) == []
    wait(node, 3)
    assert asked(node) == [(0, 1)]
    effects = node.step(e.InputEndRequested(0, KEY, 1, 1), "end")
    assert broadcast(effects) == ["punctuation after 1.1 at 50"]


def test_a_standby_whose_owner_punctuates_asks_for_nothing() -> None:
    node = idle_standby(partitions=2)
    wait(node, STEPS)
    for step in range(20):
        moved(node, 1, 1 + step, 50 + step)
        wait(node, 2)
        node.broadcast(0, punctuation(0, 1, step, 50 + step))
        assert asked(node) == []


def test_a_standby_that_was_right_punctuates_at_once_until_another_keeps_pace() -> None:
    node = idle_standby(partitions=2)
    wait(node, STEPS)
    moved(node, 1, 1, 50)
    wait(node, STEPS)
    own = [e_.value for e_ in node.step(e.InputEndRequested(0, KEY, 1, 1), "end") if isinstance(e_, x.WriteBroadcast)]
    node.broadcast(0, *own)
    moved(node, 1, 2, 60)
    wait(node, 2)
    assert asked(node) == [(0, 1)], "the owner was late before"
    node.broadcast(0, *own)  # it is void, but the owner's
    assert asked(node) == []


def test_of_two_punctuations_the_broadcast_accepts_the_first() -> None:
    node = idle_standby(partitions=2)
    wait(node, STEPS)
    moved(node, 1, 1, 50)
    wait(node, STEPS)
    own = [e_.value for e_ in node.step(e.InputEndRequested(0, KEY, 1, 1), "end") if isinstance(e_, x.WriteBroadcast)]
    node.broadcast(0, punctuation(0, 1, 0, 45), *own)
    assert node.node.replica.slots[0].record.position == (1, 1)
    assert node.node.work.runners[0].task.watermark_ms == 45


@pytest.mark.parametrize("end", [2, 5])
def test_records_that_a_standby_has_not_read_are_no_silence(end: int) -> None:
    node = idle_standby(partitions=2)
    wait(node, STEPS)
    moved(node, 1, 1, 50)
    wait(node, STEPS)
    assert broadcast(node.step(e.InputEndRequested(0, KEY, 1, end), "end")) == []
    assert asked(node) == []


def test_a_standby_that_is_promoted_knows_how_long_its_partition_was_silent() -> None:
    node = idle_standby(partitions=2)
    wait(node, STEPS)
    node.control(m.Claim(0, "b", 0, 2))
    node.broadcast(0, *own_broadcast(node, 0))
    moved(node, 1, 1, 50)
    assert asked(node) == [(0, 1)]


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_standby_ends_its_input_and_says_so_where_the_owner_does_not() -> None:
    node = idle_standby()
    node.control(m.EndOfInput(0, 0, 1))
    found = wait(node, 2 * LATE)
    assert broadcast(found)[:1] == ["delta 1-1.1 at end {}, answered 1"]
