"""Records read in one turn are one step of the node, and deltas that only serve others together leave together."""

from __future__ import annotations

from typing import Any

from holon import Job, Json, Source
from nodes.log.memory import MemoryLog
from nodes.machine import effects as x
from nodes.machine import messages as m
from nodes.machine.broadcast.awaited_ends import GATHER_MS
from nodes.machine.config import JobRun, NodeConfig, WantedInput
from nodes.machine.events import BroadcastRead, Event, EventBatch, InputRead, Ticked
from nodes.machine.node import Node
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import FEW_RECORDS, LONG_STEP_MS, Driver
from nodes.streams.jobs import open_job
from tests.unit.node_dialogue import CountPerWindow, Dialogue, count_job, running
from wcrdt.replica.replica import SlotDelta
from wcrdt.replica.slots import TrackDelta


def each(event: Event) -> list[Event]:
    """The events, one by one."""
    return list(event.events) if isinstance(event, EventBatch) else [event]


class Rewinds(Node):
    """Asks for the whole broadcast again at the first record of partition 0, and notes what it is given."""

    def step(self, event: Event, now_ms: int) -> list[x.Effect]:
        read = [one for one in each(event) if isinstance(one, BroadcastRead)]
        self.seen: list[tuple[int, list[bytes]]] = getattr(self, "seen", [])
        known = any(partition == 0 for partition, _ in self.seen)
        self.seen += [(one.partition, list(one.values)) for one in read]
        return [x.RewindBroadcast()] if not known and any(one.partition == 0 for one in read) else []


def test_a_rewind_in_the_midst_of_reading_sets_every_partition_back() -> None:
    log, job = MemoryLog(), count_job()
    log.create_topic("in", 2)
    run = open_job(log, job)
    node = Rewinds(NodeConfig("a"), run)
    driver = Driver(node, log, MemoryCheckpoints(), lambda: 0)
    topic = job.broadcast_topic(0)
    log.append(topic, 1, [b"old"])
    driver.turn()
    log.append(topic, 0, [b"first"])
    log.append(topic, 1, [b"new"])
    driver.turn()
    driver.turn()
    first = [(1, [b"old"]), (0, [b"first"]), (1, [b"new"])]
    assert node.seen == [*first, (0, [b"first"]), (1, [b"old", b"new"])]


class ReadsAgain(Rewinds):
    """Asks in one step for the whole broadcast, and for one batch of it that has a damaged record."""

    def step(self, event: Event, now_ms: int) -> list[x.Effect]:
        rewinds = super().step(event, now_ms)
        return [*rewinds, x.ReadBroadcastAgain(1, 1)] if rewinds else []


def test_a_batch_is_read_again_and_what_a_rewind_brings_is_read_before_it() -> None:
    log, job = MemoryLog(), count_job()
    log.create_topic("in", 2)
    node = ReadsAgain(NodeConfig("a"), open_job(log, job))
    driver = Driver(node, log, MemoryCheckpoints(), lambda: 0)
    topic = job.broadcast_topic(0)
    log.append(topic, 1, [b"old"])
    driver.turn()
    log.append(topic, 0, [b"first"])
    driver.turn()
    driver.turn()
    assert node.seen == [(1, [b"old"]), (0, [b"first"]), (0, [b"first"]), (1, [b"old"])]


class Feeds(Node):
    """Wants input of every partition from its start, notes in which step it gets it, and takes its time for it."""

    def __init__(self, run: JobRun) -> None:
        super().__init__(NodeConfig("a"), run)
        self.at = [0] * run.partitions
        self.steps: list[list[tuple[int, int]]] = []
        self.takes_ms = self.passed_ms = 0

    def wanted(self) -> list[WantedInput]:
        return [WantedInput(partition, 1, offset, None) for partition, offset in enumerate(self.at)]

    def step(self, event: Event, now_ms: int) -> list[x.Effect]:
        read = [one for one in each(event) if isinstance(one, InputRead)]
        for one in read:
            self.at[one.partition] = one.run.next_offset
        if read:
            self.steps.append([(one.partition, len(one.run)) for one in read])
            self.passed_ms += self.takes_ms
        return []


def feeding(partitions: int = 3) -> tuple[MemoryLog, Feeds, Driver]:
    log, job = MemoryLog(), count_job()
    log.create_topic("in", partitions)
    node = Feeds(open_job(log, job))
    return log, node, Driver(node, log, MemoryCheckpoints(), lambda: node.passed_ms)


def test_a_little_input_of_several_partitions_is_one_step() -> None:
    log, node, driver = feeding()
    for partition in range(3):
        log.append("in", partition, [b"{}"] * (partition + 1))
    driver.turn()
    assert node.steps == [[(0, 1), (1, 2), (2, 3)]]


def test_of_much_input_a_step_takes_only_so_much() -> None:
    log, node, driver = feeding(3)
    half = FEW_RECORDS // 2
    for partition in range(3):
        log.append("in", partition, [b"{}"] * half)
    driver.turn()
    assert node.steps == [[(0, half), (1, half)]]
    driver.turn()
    assert node.steps[1:] == [[(2, half)]]


def test_where_processing_takes_long_no_partition_waits_for_another() -> None:
    log, node, driver = feeding(2)
    node.takes_ms = LONG_STEP_MS + 1
    for _ in range(2):
        for partition in range(2):
            log.append("in", partition, [b"{}"])
        driver.turn()
    assert node.steps == [[(0, 1), (1, 1)], [(0, 1)]]
    driver.turn()
    assert node.steps[2:] == [[(1, 1)]]


def test_of_what_happened_together_nothing_is_lost_to_a_failure_of_the_function() -> None:
    """The failing input stands last; what was read of the broadcast before it has its effect."""
    node = running(partitions=2)
    delta = SlotDelta(1, 0, TrackDelta((0, 0), (7, 0), 70, []), None)
    told = [
        BroadcastRead(1, [m.encode(m.SlotSent(0, delta))], 0, 1),
        InputRead(0, 1, node.input(0, {"ts": 5, "fail": True})),
    ]
    effects = node.step(EventBatch(told), "both")
    assert node.node.replica.slots[1].record.position == (7, 0)
    written = [m.decode_control(effect.value) for effect in effects if isinstance(effect, x.WriteControl)]
    assert [type(message) for message in written] == [m.Failed]


def sent(effects: list[x.Effect]) -> list[int]:
    """Of which partitions a delta leaves."""
    return [effect.partition for effect in effects if isinstance(effect, x.WriteBroadcast)]


def closing(partition: int, node: Dialogue) -> InputRead:
    """Input that closes a window."""
    return InputRead(partition, 1, node.input(0, {"ts": 3}, {"ts": 12}))


def test_deltas_that_close_a_window_leave_together() -> None:
    """Before all partitions of the node have closed it nobody can use one of them."""
    node = running(partitions=2, broadcast_interval_ms=10**6)
    now_ms = node.now_ms
    assert sent(node.node.step(closing(0, node), now_ms)) == []
    assert sent(node.node.step(closing(1, node), now_ms + 1)) == [0, 1]


def test_a_delta_that_closes_a_window_waits_for_a_slow_partition_but_a_little() -> None:
    node = running(partitions=2, broadcast_interval_ms=10**6)
    now_ms = node.now_ms
    assert sent(node.node.step(closing(0, node), now_ms)) == []
    assert sent(node.node.step(Ticked(), now_ms + GATHER_MS - 1)) == []
    assert sent(node.node.step(Ticked(), now_ms + GATHER_MS)) == [0]
    assert sent(node.node.step(closing(1, node), now_ms + GATHER_MS)) == [1]


def test_where_results_wait_for_their_delta_it_waits_for_nothing() -> None:
    source: Source[dict[str, Any]] = Source(
        "in", Json(dict[str, Any]), timestamp=lambda event: event["ts"], idle_timeout_ms=10**6
    )
    node = running(partitions=2, broadcast_interval_ms=10**6, job=Job("count", source, CountPerWindow, output="out"))
    assert sent(node.node.step(closing(0, node), node.now_ms)) == [0]
