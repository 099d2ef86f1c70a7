"""Idle partitions: only the log's answer after a silence makes one, whatever this node did meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holon import WCRDT, Context, GlobalWindow, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from nodes.fleet.monitor import Monitor
from nodes.log.memory import MemoryLog
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.idle_partitions import STEPS, bound_ms
from nodes.machine.node import Node
from nodes.results.reader import OutputReader
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import Driver
from nodes.streams.jobs import declare_end, open_job
from tests.unit.node_dialogue import CountPerWindow, Dialogue, joined, running
from wcrdt.lattices.counters import GCounter
from wcrdt.replica.replica import Punctuation, Replica, SlotDelta
from wcrdt.replica.slots import WINDOW_START, TrackDelta
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

TIMEOUT_MS = 300
STEP_MS = TIMEOUT_MS // STEPS


class Clock:
    """Virtual time, which passes where records are processed."""

    def __init__(self, cost_ms: float) -> None:
        self.now = 0.0
        self.cost_ms = cost_ms

    def now_ms(self) -> int:
        return int(self.now)


def idle_job(function: Any = CountPerWindow, clock: Clock | None = None) -> Job:
    def time_of(event: dict[str, Any]) -> int:
        if clock is not None:
            clock.now += clock.cost_ms
        return event["ts"]

    source: Source[dict[str, Any]] = Source("in", Json(dict[str, Any]), timestamp=time_of, idle_timeout_ms=TIMEOUT_MS)
    return Job("count", source, function, output="out")


# --- a backlog --------------------------------------------------------------------------------------------------------


def work_off(records: int, cost_ms: float, batch_max_records: int, function: Any = CountPerWindow) -> Monitor:
    """Two partitions with ordered records from before the start, on one node to which each record costs so much."""
    clock = Clock(cost_ms)
    log = MemoryLog(clock_ms=clock.now_ms)
    log.create_topic("in", 2)
    for partition in range(2):
        log.append("in", partition, [json.dumps({"ts": ts}).encode() for ts in range(records)])
    run = open_job(log, idle_job(function, clock))
    node = Node(NodeConfig("a"), run)
    driver = Driver(node, log, MemoryCheckpoints(), clock.now_ms, batch_max_records=batch_max_records)
    while driver.input_records < 2 * records:
        turn(driver, clock)
    for _ in range(50 * STEPS):  # now both are idle
        turn(driver, clock)
    declare_end(log, run)
    while node.left is None:
        turn(driver, clock)
    monitor = Monitor(log, run)
    monitor.poll()
    assert monitor.conserved()
    return monitor


def turn(driver: Driver, clock: Clock) -> None:
    clock.now += 20
    assert clock.now < 10**6, "never done"
    driver.turn()


def results_of(monitor: Monitor) -> list[dict[str, int]]:
    found = [json.loads(output.value) for output in OutputReader(monitor.log, "out").read_available()]
    return sorted(found, key=lambda row: row["end"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cost_ms", "batch_max_records"), [(2.0, 200), (0.5, 20_000), (50.0, 1), (2.0, 20_000)], ids=str
)
def test_ordered_backlogs_lose_nothing_however_long_a_turn_is(cost_ms: float, batch_max_records: int) -> None:
    monitor = work_off(1000, cost_ms, batch_max_records)
    assert monitor.counts().late == 0
    assert results_of(monitor) == [{"end": end, "count": 20} for end in range(10, 1010, 10)]


class CountAndAll(ProcessingFunction[dict[str, Any]]):
    """Beside the counts a state that never closes: no record as a whole is ever late."""

    count = WCRDT(GCounter(), Tumbling(10))
    everything = WCRDT(GCounter(), GlobalWindow())

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        self.count.insert(1, event["ts"])
        self.everything.insert(1, event["ts"])

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})


def test_beside_a_global_window_nothing_is_missing_in_silence() -> None:
    monitor = work_off(1000, 2.0, 200, CountAndAll)
    assert results_of(monitor) == [{"end": end, "count": 20} for end in range(10, 1010, 10)]
    assert monitor.counts().late_inserts == 0


# --- what is silent ---------------------------------------------------------------------------------------------------


def silent(node: Dialogue) -> list[tuple[int, int]]:
    return [(wanted.partition, wanted.offset) for wanted in node.node.silent_inputs()]


def answer(node: Dialogue, partition: int, offset: int, end: int) -> list[str]:
    """The log's answer; gives the punctuations that follow."""
    return punctuations(node.step(e.InputEndRequested(partition, 1, offset, end), f"[{partition}] ends at {end}"))


def punctuations(effects: list[x.Effect]) -> list[str]:
    written = [m.decode_broadcast(effect.value) for effect in effects if isinstance(effect, x.WriteBroadcast)]
    found = [message.punctuation for message in written if isinstance(message, m.PunctuationSent)]
    return [f"[{p.partition}] after {p.after[0]}.{p.after[1]}: {p.watermark_ms}" for p in found]


def read_back(node: Dialogue) -> None:
    """The node's newest broadcast is on the log."""
    for effect in list(node.effects):
        if isinstance(effect, x.WriteBroadcast):
            node.broadcast(effect.partition, effect.value)


def fed(*watermarks_ms: int) -> Dialogue:
    """A node that owns partitions, each of which had one record with such a time."""
    node = running(partitions=len(watermarks_ms), job=idle_job())
    for partition, at_ms in enumerate(watermarks_ms):
        node.records(partition, 1, 0, {"ts": at_ms})
        read_back(node)
    return node


def pause(node: Dialogue, count: int = STEPS) -> None:
    for _ in range(count):
        node.tick(STEP_MS)


def test_a_silence_is_a_reason_to_ask_and_no_more() -> None:
    node = fed(100, 200)
    assert silent(node) == []
    pause(node)
    assert silent(node) == [(0, 1), (1, 1)]
    assert punctuations(node.tick()) == []
    assert answer(node, 0, 1, 1) == ["[0] after 1.0: 200"]


def test_records_that_were_not_read_are_no_silence() -> None:
    node = fed(100, 200)
    pause(node)
    assert answer(node, 0, 1, 2) == []
    assert silent(node) == [(1, 1)], "it was told so, and reads them"
    pause(node)
    assert silent(node) == [(0, 1), (1, 1)], "a reader that finds nothing for long asks again"


def test_an_answer_to_an_older_question_says_nothing() -> None:
    node = fed(100, 200)
    pause(node)
    node.records(0, 1, 1, {"ts": 110})
    read_back(node)
    assert answer(node, 0, 1, 1) == []


def test_an_answer_holds_for_one_step() -> None:
    """Others' broadcasts after the request may be newer than records that came after it."""
    node = fed(100, 200)
    node.records(0, 1, 1, {"ts": 110})
    deltas = [effect.value for effect in node.effects if isinstance(effect, x.WriteBroadcast)]
    pause(node)
    assert answer(node, 0, 2, 2) == [], "its last delta was not read back"
    assert punctuations(node.broadcast(0, *deltas)) == []
    assert answer(node, 0, 2, 2) == ["[0] after 2.0: 200"]


@pytest.mark.parametrize("turn_ms", [STEP_MS, 10 * TIMEOUT_MS, 3_600_000])
def test_a_node_that_did_not_run_does_not_take_that_for_silence(turn_ms: int) -> None:
    node = fed(100, 200)
    for _ in range(STEPS - 1):
        node.tick(turn_ms)
        assert silent(node) == []
    node.tick(turn_ms)
    assert silent(node) != []


def test_each_record_ends_the_silence() -> None:
    node = fed(100, 200)
    for offset in range(1, 10):
        pause(node, STEPS - 1)
        node.records(0, 1, offset, {"ts": 100 + offset})
        read_back(node)
    assert silent(node) == [(1, 1)]


def test_a_partition_that_was_just_taken_over_is_not_silent_yet() -> None:
    node = fed(100, 200)
    pause(node, 10)
    node.control(m.Claim(0, "b", 0, 2), m.Claim(0, "a", 0, 3))
    node.loaded(0, 3)
    node.tail(0, 3)
    read_back(node)
    assert (0, 0) not in silent(node)


def test_what_is_to_come_before_the_declared_end_is_waited_for() -> None:
    node = fed(100, 200)
    node.control(m.EndOfInput(0, 0, 5))
    pause(node)
    assert silent(node) == [(1, 1)]


# --- how far ----------------------------------------------------------------------------------------------------------


def replica_at(*watermarks_ms: int, idle: tuple[int, ...] = ()) -> Replica:
    replica = Replica(len(watermarks_ms), {})
    for partition, (slot, watermark_ms) in enumerate(zip(replica.slots, watermarks_ms, strict=True)):
        slot.record.watermark_ms = watermark_ms
        if partition in idle:
            assert replica.punctuate(Punctuation(partition, (0, 0), watermark_ms))
    return replica


def test_an_idle_partition_goes_no_further_than_the_slowest_that_is_not() -> None:
    assert bound_ms(replica_at(0, 300, 200).slots, 0) == 200
    assert bound_ms(replica_at(0, 300, BEFORE_TIME_MS).slots, 0) == BEFORE_TIME_MS, "it may have records"


def test_an_idle_partition_does_not_wait_for_one_that_is_idle_too() -> None:
    assert bound_ms(replica_at(0, 300, 200, idle=(2,)).slots, 0) == 300
    assert bound_ms(replica_at(BEFORE_TIME_MS, BEFORE_TIME_MS, 300, idle=(0, 1)).slots, 0) == 300
    assert bound_ms(replica_at(0, 300, 200, idle=(0, 1, 2)).slots, 0) == 300, "all are"


def test_a_partition_that_has_ended_is_no_bound() -> None:
    assert bound_ms(replica_at(0, END_OF_TIME_MS).slots, 0) == BEFORE_TIME_MS
    assert bound_ms(replica_at(0, END_OF_TIME_MS, 70).slots, 0) == 70


def test_partitions_that_are_idle_together_say_so_and_then_come_to_the_furthest() -> None:
    """The first word moves no event time: only by it the others know that they need not wait."""
    node = fed(100, 100, 500)
    pause(node)
    said = []
    while asked := silent(node):
        for partition, offset in asked:
            said += answer(node, partition, offset, offset)
            read_back(node)
    assert said == [
        "[0] after 1.0: 100",
        "[1] after 1.0: 500",
        "[2] after 1.0: 500",
        "[0] after 1.1: 500",
    ]
    pause(node)
    assert silent(node) == [], "nothing is left to say"


def test_a_partition_of_another_node_is_waited_for_until_the_log_says_that_it_is_idle() -> None:
    """This node's clock says nothing of it: its owner may be busy, stopped or dead, and have a backlog."""
    node = joined(partitions=3, others=["b"], job=idle_job())
    node.control(m.Claim(0, "a", 0, 1), m.Claim(0, "b", 1, 1), m.Claim(0, "b", 2, 1))
    node.run_partition(0, 1)
    node.records(0, 1, 0, {"ts": 100})
    read_back(node)
    for partition, at_ms in ((1, 200), (2, 300)):
        track = TrackDelta((0, 0), (1, 0), at_ms, [])
        delta = SlotDelta(partition, 0, track, TrackDelta(WINDOW_START, WINDOW_START, BEFORE_TIME_MS, []))
        node.broadcast(partition, m.encode(m.SlotSent(0, delta)))
    pause(node, 100)
    assert answer(node, 0, 1, 1) == ["[0] after 1.0: 200"]
    read_back(node)
    pause(node, 100)
    assert silent(node) == []
    node.broadcast(1, m.encode(m.PunctuationSent(0, Punctuation(1, (1, 0), 200))))
    assert answer(node, 0, 1, 1) == ["[0] after 1.1: 300"]


def test_a_partition_that_says_it_is_idle_says_so_until_it_has_a_record() -> None:
    replica = replica_at(50, 300, idle=(0,))
    slot = replica.slots[0]
    slot.forget_punctuations((9, 0))  # every replay starts behind it
    assert slot.idle and slot.punctuation_count == 1
    other = Replica(2, {})
    other.receive(replica.full(0))
    assert other.slots[0].idle, "whoever joins knows it too"
    slot.record.position = (1, 0)
    assert not slot.idle
    slot.forget_punctuations((9, 0))
    assert slot.punctuations == []


# --- several sources --------------------------------------------------------------------------------------------------


def test_each_source_has_an_idle_timeout_of_its_own() -> None:
    def source(topic: str, idle_timeout_ms: int | None) -> Source[dict[str, Any]]:
        reads = Json(dict[str, Any])
        return Source(topic, reads, timestamp=lambda event: event["ts"], idle_timeout_ms=idle_timeout_ms)

    sources = [source("short", TIMEOUT_MS), source("long", 2 * TIMEOUT_MS), source("never", None)]
    job = Job("count", sources, CountPerWindow, output="out")
    node = running(partitions=4, job=job, topic_partitions=(1, 2, 1))
    for partition in range(4):
        node.records(partition, 1, 0, {"ts": 100 + partition})
        read_back(node)
    pause(node)
    assert silent(node) == [(0, 1)]
    pause(node)
    assert silent(node) == [(0, 1), (1, 1), (2, 1)]
    pause(node, 9 * STEPS)
    assert silent(node) == [(0, 1), (1, 1), (2, 1)], "the fourth holds windows open for ever"
    assert answer(node, 2, 1, 1) == ["[2] after 1.0: 102"], "no punctuation goes back, whatever others hold"
