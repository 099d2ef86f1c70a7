"""Nothing comes out because a partition is empty or behind: it is named, with since when and what can be done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, WLocal, on_window
from nodes.fleet.held_frontier import held_frontier
from nodes.fleet.monitor import Monitor
from nodes.fleet.watermarks import Watermarks
from nodes.log.memory import MemoryLog
from nodes.machine.config import NodeConfig
from nodes.machine.node import Node
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import Driver
from nodes.streams.held_frontier import HELD_AFTER_MS, HeldFrontier, HeldPartition, held_text
from nodes.streams.jobs import declare_end, open_history, open_job
from wcrdt import GCounter

Event = dict[str, int]
START_MS = 1_750_000_000_000  # 2025-06-15 15:06:40 UTC


def counting(idle_timeout_ms: int | None = None, private: int = 0) -> Job[Event]:
    class Counting(ProcessingFunction[Event]):
        count = WLocal(GCounter(), Tumbling(1000)) if private else WCRDT(GCounter(), Tumbling(1000))

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event["ts"])

        @on_window(count)
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit(window.start_ms)

    source = Source("in", Json(Event), lambda event: event["ts"], idle_timeout_ms=idle_timeout_ms)
    return Job("counting", source, Counting, output="out")


class Stage:
    """A node on a log whose clock is the test's."""

    def __init__(self, job: Job[Any], partitions: int = 4, nodes: int = 1) -> None:
        self.now_ms, self.log, self.job = START_MS, MemoryLog(clock_ms=lambda: self.now_ms), job
        self.log.create_topic("in", partitions)
        self.said: list[str] = []
        store = MemoryCheckpoints()
        self.drivers: list[Driver] = []
        for number in range(nodes):
            config = NodeConfig(f"n{number}", number=number, expected=nodes, failure_timeout_ms=100_000)
            run, history = open_history(self.log, job)
            node = Node(config, run, history.ownership)
            self.drivers.append(
                Driver(
                    node,
                    self.log,
                    store,
                    lambda: self.now_ms,
                    control_at=history.offset,
                    report=lambda line, number=number: self.said.append(f"{number} {line}"),
                )
            )
        self.monitor = Monitor(self.log, open_job(self.log, job))

    def put(self, partition: int, *times: int) -> None:
        self.log.append("in", partition, [msgspec.json.encode({"ts": START_MS + time}) for time in times])

    def pass_ms(self, time_ms: int) -> None:
        for _ in range(time_ms // 50):
            self.now_ms += 50
            for driver in self.drivers:
                driver.turn()

    def held(self) -> HeldFrontier | None:
        self.monitor.poll()
        return held_frontier(self.monitor, Watermarks(self.monitor).read())

    @property
    def outputs(self) -> int:
        return sum(self.log.end_offset("out", p) for p in range(self.log.partitions("out")))


@pytest.mark.parametrize("private", [0, 1])
def test_empty_partitions_are_named_after_five_seconds_and_no_longer_when_windows_go_on(private: int) -> None:
    stage = Stage(counting(private=private))
    stage.pass_ms(500)
    stage.put(0, 10, 5_000), stage.put(2, 20, 7_000)
    stage.pass_ms(HELD_AFTER_MS - 500)
    assert stage.held() is None and stage.said == []
    stage.pass_ms(2_000)
    held = stage.held()
    assert held is not None and held.idle_timeout_ms is None
    assert held.partitions == [HeldPartition(1, None, 0, 0), HeldPartition(3, None, 0, 0)]
    assert held.held_ms >= HELD_AFTER_MS and 500 <= held.since_ms - START_MS <= 1_500, "when the windows began to wait"
    (line,) = stage.said
    assert "no window was completed for 5 s: partitions 1 (no event time yet), 3 (no event time yet) hold" in line
    assert "Source(idle_timeout_ms=...) passes over it" in line and stage.outputs == 0
    stage.put(1, 6_000), stage.put(3, 6_000)
    stage.pass_ms(2_000)
    assert stage.outputs > 0 and stage.held() is None and len(stage.said) == 1


def test_a_partition_that_is_behind_is_named_with_its_watermark_and_what_waits_in_it() -> None:
    stage = Stage(counting(idle_timeout_ms=600_000), partitions=2)
    stage.put(0, 10, 9_000), stage.put(1, 20, 1_500)
    stage.pass_ms(8_000)
    assert stage.outputs > 0, "the first window"
    held = stage.held()
    assert held is not None and held.partitions == [HeldPartition(1, START_MS + 1_500, 2, 0)]
    assert "partition 1 (watermark 2025-06-15 15:06:41.500, offset 2) holds the frontier" in held_text(held)
    assert "idle_timeout_ms=600000 passes over a partition that is silent for so long" in held_text(held)


@pytest.mark.slow
def test_windows_that_go_on_and_topics_that_are_quiet_are_no_reason_to_say_anything() -> None:
    stage = Stage(counting(), partitions=2)
    for second in range(12):
        stage.put(0, 1000 * second), stage.put(1, 1000 * second + 2_500)
        stage.pass_ms(1_000)
    assert stage.held() is None
    quiet = Stage(counting(), partitions=2)
    quiet.put(0, 100), quiet.put(1, 900)  # behind, but nobody has passed the end of a window
    quiet.pass_ms(20_000)
    assert quiet.held() is None and quiet.said == stage.said == []


def test_an_idle_timeout_takes_the_partition_out_of_the_way() -> None:
    stage = Stage(counting(idle_timeout_ms=1_000), partitions=2)
    stage.put(0, 10, 9_000)
    stage.pass_ms(10_000)
    assert stage.outputs > 0 and stage.held() is None and stage.said == []


@pytest.mark.slow
def test_of_several_nodes_the_owner_of_the_partition_logs_it_and_again_after_a_minute() -> None:
    stage = Stage(counting(), partitions=4, nodes=2)
    stage.pass_ms(3_000)
    stage.put(0, 10, 5_000)
    stage.pass_ms(10_000)
    (line,) = stage.said
    owner = stage.drivers[0].node.ownership.owner(1)
    assert owner == f"n{line[0]}"
    stage.pass_ms(60_000)
    assert len(stage.said) == 2


def test_a_job_that_is_done_has_nothing_held() -> None:
    stage = Stage(counting(), partitions=2)
    stage.put(0, 10, 5_000)
    stage.pass_ms(8_000)
    assert stage.held() is not None
    declare_end(stage.log, open_job(stage.log, stage.job))
    stage.pass_ms(2_000)
    assert stage.held() is None and stage.outputs > 0


def test_many_partitions_are_all_named() -> None:
    partitions = [HeldPartition(number, None, 0, 0) for number in (*range(20), 25)]
    text = held_text(HeldFrontier(partitions, 1_750_000_000_000, 7_400, None))
    assert "for 7 s (since 2025-06-15 15:06:40.000)" in text
    assert "7 (no event time yet) and 13 more: 8-19, 25 hold the frontier" in text
