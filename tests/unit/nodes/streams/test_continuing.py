"""A job goes on behind the end of its input: what was answered stays answered, what it remembers it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holon import (
    WCRDT,
    BoundedOutOfOrderness,
    Context,
    GlobalWindow,
    Job,
    Json,
    Local,
    ProcessingFunction,
    Source,
    Tumbling,
    Window,
    on_window,
)
from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.fleet.end_of_input import Bounds
from nodes.fleet.monitor import Monitor
from nodes.log.memory import MemoryLog
from nodes.machine.config import NodeConfig
from nodes.machine.effects import Ending
from nodes.machine.node import Node
from nodes.results.reader import OutputReader
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.continuing import continue_job
from nodes.streams.control_history import JobControlHistory
from nodes.streams.driver import Driver
from nodes.streams.jobs import declare_end, open_job
from nodes.streams.upstream import upstream_incarnations
from wcrdt import GCounter

PARTITIONS = 2


def counting(
    lateness_ms: int = 0, window_retention_ms: int = 0, windows: Any = None, name: str = "counting"
) -> Job[Any]:
    class Counting(ProcessingFunction[dict[str, int]]):
        count = WCRDT(GCounter(), Tumbling(10) if windows is None else windows)
        sums = WCRDT(GCounter(), Tumbling(30), stage=1)
        total = Local(0, track="window")
        seen = Local(0)

        def process(self, event: dict[str, int], ctx: Context) -> None:
            self.count.insert(1, event["ts"])
            self.seen.value += 1
            ctx.emit({"seen": self.seen.value})

        @on_window(count, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            count = await self.count.window_value(window)
            self.total.value += count
            if windows is None:
                self.sums.insert(count, window.start_ms)
            ctx.emit({"end": window.end_ms, "count": count})

        @on_window(sums, scope="global")
        async def sum(self, window: Window, ctx: Context) -> None:
            ctx.emit({"sum_end": window.end_ms, "sum": await self.sums.window_value(window)})

    source = Source("in", Json(dict[str, int]), lambda event: event["ts"], watermarks=BoundedOutOfOrderness(0))
    return Job(
        name, source, Counting, output="out", allowed_lateness_ms=lateness_ms, window_retention_ms=window_retention_ms
    )


class Stage:
    """Bounded runs of a job, one after the other, on one log and one store."""

    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self.log = MemoryLog()
        self.store: CheckpointStore = MemoryCheckpoints()
        self.log.create_topic("in", PARTITIONS)
        self.now_ms = self.born = 0
        self.checkpoint_interval_ms = 10

    def put(self, partition: int, *times: int) -> None:
        self.log.append("in", partition, [b'{"ts":%d}' % time for time in times])

    def start(self, count: int) -> list[Driver]:
        drivers = []
        for _ in range(count):
            self.born += 1
            interval_ms = self.checkpoint_interval_ms
            config = NodeConfig(f"n{self.born}", expect_ms=0, checkpoint_interval_ms=interval_ms, failure_timeout_ms=50)
            history = JobControlHistory(self.log, self.job)
            node = Node(config, open_job(self.log, self.job), history.ownership)
            drivers.append(Driver(node, self.log, self.store, lambda: self.now_ms, control_at=history.offset))
        return drivers

    def turn(self, drivers: Sequence[Driver], times: int) -> None:
        for _ in range(times):
            self.now_ms += 5
            for driver in drivers:
                if driver.node.left is None:
                    driver.turn()

    def run(self, nodes: int = 2) -> None:
        """To the end of what is there now; one node of several is killed on the way."""
        run = open_job(self.log, self.job)
        drivers = self.start(nodes)
        self.turn(drivers, 10)
        declare_end(self.log, run)
        if nodes > 1:
            self.turn(drivers, 3)
            drivers.pop()
        self.turn(drivers, 400)
        assert [driver.node.left and driver.node.left.ending for driver in drivers] == [Ending.DONE] * len(drivers)

    def monitor(self) -> Monitor:
        monitor = Monitor(self.log, open_job(self.log, self.job))
        monitor.poll()
        return monitor

    def results(self, name: str) -> list[Any]:
        found = [msgspec.json.decode(o.value) for o in OutputReader(self.log, "out").read_available()]
        return sorted(tuple(row.values()) for row in found if name in row)


@pytest.fixture
def stage() -> Stage:
    return Stage(counting())


def test_a_continued_job_answers_what_is_new_and_takes_what_is_behind_the_answered_end_as_late(stage: Stage) -> None:
    stage.put(0, 1, 2, 14), stage.put(1, 3)
    stage.run()
    assert stage.results("count") == [(10, 3), (20, 1)] and stage.results("sum") == [(30, 4)]
    stage.put(0, 25, 33), stage.put(1, 29, 30, 41)
    continue_job(stage.log, stage.job, stage.store)
    stage.run()
    # The sums over [0, 30) are answered: what would change them is late, so 25 and 29 are.
    assert stage.results("count") == [(10, 3), (20, 1), (40, 2), (50, 1)]
    assert stage.results("sum") == [(30, 4), (60, 3)]
    assert sorted(stage.results("seen")) == [(1,), (1,), (2,), (2,), (3,), (3,), (4,)]
    monitor = stage.monitor()
    counts = monitor.counts()
    assert (counts.accepted, counts.late, counts.taken) == (7, 2, 9) and monitor.conserved()


def test_the_log_says_through_which_time_windows_are_answered(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.put(0, 1, 14), stage.put(1, 3)
    stage.run()
    continue_job(stage.log, stage.job, stage.store)
    assert "windows are answered through 1970-01-01 00:00:00.030" in caplog.text


def test_a_job_without_windows_says_nothing_of_them(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(Job("plain", Source("in", Json(dict[str, int])), lambda event, ctx: ctx.emit(event), output="out"))
    stage.put(0, 1), stage.put(1, 3)
    stage.run()
    continue_job(stage.log, stage.job, stage.store)
    assert "answered" not in caplog.text


def test_windows_that_nothing_had_opened_are_open_after_the_end(stage: Stage) -> None:
    """One partition's event time was far ahead, but what it brought was all that its windows had."""
    stage.put(0, 1), stage.put(1, 95)
    stage.run()
    stage.put(0, 121), stage.put(1, 130)
    continue_job(stage.log, stage.job, stage.store)
    stage.run()
    assert stage.results("count") == [(10, 1), (100, 1), (130, 1), (140, 1)]


def test_a_job_is_continued_again_and_again_under_one_identity(stage: Stage) -> None:
    for round in range(4):
        if round:
            continue_job(stage.log, stage.job, stage.store)
        stage.put(round % 2, 100 * round + 1, 100 * round + 50)
        stage.run(1 + round % 2)
    assert len(stage.results("count")) == 8 and stage.monitor().counts().accepted == 8
    run = open_job(stage.log, stage.job)
    assert (run.incarnation, run.origin) == (3, 0)
    outputs = list(OutputReader(stage.log, "out").read_available())
    assert {output.identity.incarnation for output in outputs if output.identity} == {0}
    assert upstream_incarnations(stage.log, "out") == {"counting": 0}, "as downstream jobs see it"


def test_allowed_lateness_does_not_open_what_is_answered() -> None:
    stage = Stage(counting(lateness_ms=50))
    stage.put(0, 1, 14), stage.put(1, 3)
    stage.run()
    stage.put(0, 12, 31, 45), stage.put(1, 60)
    continue_job(stage.log, stage.job, stage.store)
    stage.run()
    assert stage.results("count") == [(10, 2), (20, 1), (40, 1), (50, 1), (70, 1)]
    assert stage.monitor().counts().late == 1


def test_a_takeover_in_a_continued_job_writes_nothing_twice(stage: Stage) -> None:
    stage.put(0, 1)
    stage.run(1)
    continue_job(stage.log, stage.job, stage.store)
    stage.put(0, 41, 52, 63)
    stage.checkpoint_interval_ms = 60_000
    stage.turn(stage.start(1), 30)
    assert len(stage.results("seen")) == 4
    stage.run(1)
    reader = OutputReader(stage.log, "out")
    assert len(list(reader.read_available())) > 4 and reader.repeats_dropped == 0


def test_who_continues_second_goes_on_with_what_the_first_has_started(stage: Stage) -> None:
    stage.put(0, 1)
    stage.run()
    continue_job(stage.log, stage.job, stage.store)
    continue_job(stage.log, stage.job, stage.store)  # the job has begun, so there is nothing to continue
    assert open_job(stage.log, stage.job).incarnation == 1
    stage.put(0, 41)
    stage.run()
    assert stage.results("count") == [(10, 1), (50, 1)]


@pytest.mark.parametrize(
    ("job", "why"),
    [(counting(window_retention_ms=20), "window_retention_ms"), (counting(windows=GlobalWindow()), "over all time")],
    ids=["read back", "global"],
)
def test_what_cannot_be_gone_on_with_is_refused_by_name(job: Job[Any], why: str) -> None:
    stage = Stage(job)
    stage.put(0, 1)
    stage.run(1)
    with pytest.raises(RunFailed, match=f"{why}.*--reset"):
        continue_job(stage.log, job, stage.store)
    assert open_job(stage.log, job).incarnation == 0


def test_a_final_checkpoint_that_is_gone_is_an_error_and_no_empty_beginning(stage: Stage) -> None:
    stage.put(0, 1)
    stage.run(1)
    kept, stage.store = stage.store, MemoryCheckpoints()
    with pytest.raises(RunFailed, match=r"checkpoint.*--reset"):
        continue_job(stage.log, stage.job, stage.store)
    continue_job(stage.log, stage.job, kept)
    (driver,) = stage.start(1)
    stage.turn([driver], 100)
    left = driver.node.left
    assert left is not None and left.ending is Ending.FAILED and "--reset" in left.reason


def test_records_behind_a_declared_end_are_counted(stage: Stage) -> None:
    run = open_job(stage.log, stage.job)
    stage.put(0, 1, 2)
    bounds = Bounds(stage.log, run, stage.monitor())
    assert bounds.unread == {} and not bounds.declared
    stage.put(0, 3), stage.put(1, 4, 5)
    bounds.declare()  # where the input ended when it was looked at
    monitor = stage.monitor()
    assert [monitor.ownership.end_offset(partition) for partition in range(PARTITIONS)] == [2, 0]
    again = Bounds(stage.log, run, monitor)
    assert again.declared and again.unread == {0: 1, 1: 2}
    again.declare()
    stage.log.delete_before("in", 1, 1)
    assert Bounds(stage.log, run, stage.monitor()).unread == {0: 1, 1: 1}
