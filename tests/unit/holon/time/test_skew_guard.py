"""The skew guard that a job has by default: on where it follows its topic, off where its start was bounded.

Which it is stands on the control topic, so that all nodes, and all replays, set the same records aside.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import WCRDT, Context, Job, JobError, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.job import DEAD
from holon.source import LIVE_MAX_FUTURE_SKEW_MS
from holon.testing import JobTestDriver
from nodes.checkpoints.store import CheckpointStore
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.results.reader import OutputReader
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.continuing import continue_job
from nodes.streams.control_history import JobControlHistory
from nodes.streams.driver import Driver
from nodes.streams.jobs import declare_end, open_job
from wcrdt import GCounter

NOW_MS = 1_750_000_000_000
CENTURIES_MS = 10**13
Event = dict[str, int]


class Counting(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling(1000))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, event["ts"])

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.start_ms, await self.count.window_value(window)])


def counting(**options: Any) -> Job[Event]:
    source = Source("in", Json(Event), lambda event: event["ts"], **options)
    return Job("counting", source, Counting, output="out")


# --- what it does ---------------------------------------------------------------------------------------------------


def test_a_record_from_the_future_closes_no_window_of_a_job_that_follows_its_topic() -> None:
    test = JobTestDriver(counting(), clock_ms=NOW_MS, live=True)
    test.feed(
        0, {"ts": NOW_MS}, {"ts": CENTURIES_MS}, {"ts": NOW_MS + LIVE_MAX_FUTURE_SKEW_MS}, {"ts": NOW_MS - 10**12}
    )
    (letter,) = test.dead()
    assert letter["offset"] == 1 and "the skew guard allows 86400000 ms" in letter["reason"]
    assert "Source(max_future_skew_ms=) sets it, None turns it off" in letter["reason"]
    assert test.counts.accepted == 2 and test.counts.late == 1


@pytest.mark.parametrize(
    ("options", "live", "dead"),
    [
        ({}, True, 1),
        ({}, False, 0),
        ({"max_future_skew_ms": None}, True, 0),
        ({"max_future_skew_ms": 5}, False, 1),
        ({"max_future_skew_ms": 10**14}, True, 0),
    ],
)
def test_what_is_declared_outranks_the_default(options: Any, live: bool, dead: int) -> None:
    test = JobTestDriver(counting(**options), clock_ms=NOW_MS, live=live)
    test.feed(0, {"ts": NOW_MS}, {"ts": CENTURIES_MS})
    assert test.counts.dead == dead


def test_a_record_without_a_log_timestamp_is_not_judged() -> None:
    test = JobTestDriver(counting(), clock_ms=-1, live=True)
    test.feed(0, {"ts": NOW_MS})
    assert test.counts.accepted == 1


@pytest.mark.parametrize("guard", [-1, "always", 1.5])
def test_a_guard_that_means_nothing_is_refused(guard: Any) -> None:
    with pytest.raises(JobError, match="max_future_skew_ms must be 0 or more"):
        counting(max_future_skew_ms=guard)


# --- what the log records -------------------------------------------------------------------------------------------


def new_log() -> MemoryLog:
    log = MemoryLog(clock_ms=lambda: NOW_MS)
    log.create_topic("in", 2)
    return log


@pytest.mark.parametrize("bounded", [False, True])
def test_an_incarnation_keeps_what_its_start_has_recorded(bounded: bool) -> None:
    log, guard = new_log(), None if bounded else LIVE_MAX_FUTURE_SKEW_MS
    assert open_job(log, counting(), bounded=bounded).live_guard_ms == guard
    assert open_job(log, counting(), bounded=not bounded).live_guard_ms == guard, "resumed in the other way"
    assert open_job(log, counting()).live_guard_ms == guard, "as a node does"
    assert open_job(log, counting(), bounded=not bounded, reset=True).live_guard_ms != guard


def test_a_job_of_an_older_release_resumes_without_a_guard() -> None:
    log = new_log()
    open_job(log, counting())
    started = JobControlHistory(log, counting()).ownership.started
    assert started is not None
    run = msgspec.json.decode(started.description["run"])
    assert run.pop("live_guard_ms") == LIVE_MAX_FUTURE_SKEW_MS
    run["job"] = run["job"].replace("skew live", "skew None")
    described = started.description | {"run": msgspec.json.encode(run).decode()}
    older = m.JobStarted(1, started.fingerprint, started.partitions, described)
    log.create_topic("_holon.counting.1.broadcast", 2)
    log.append("_holon.counting.control", 0, [m.encode(older)])
    opened = open_job(log, counting())
    assert (opened.incarnation, opened.live_guard_ms) == (1, None)


def test_another_guard_on_existing_state_is_another_declaration() -> None:
    log = new_log()
    open_job(log, counting())
    with pytest.raises(Exception, match=r"was source.*skew live.*is source.*skew None"):
        open_job(log, counting(max_future_skew_ms=None))


# --- fleets ---------------------------------------------------------------------------------------------------------


class Fleet:
    """Runs of a job on one log, one after the other."""

    def __init__(self) -> None:
        self.log, self.now_ms, self.born = new_log(), 0, 0
        self.store: CheckpointStore = MemoryCheckpoints()

    def put(self, partition: int, *times: int) -> None:
        self.log.append("in", partition, [msgspec.json.encode({"ts": time}) for time in times])

    def node(self) -> Driver:
        from nodes.machine.node import Node

        self.born += 1
        config = NodeConfig(f"n{self.born}", expect_ms=0, checkpoint_interval_ms=60_000, failure_timeout_ms=50)
        history = JobControlHistory(self.log, counting())
        node = Node(config, open_job(self.log, counting()), history.ownership)
        return Driver(node, self.log, self.store, lambda: self.now_ms, control_at=history.offset)

    def turn(self, driver: Driver, times: int) -> None:
        for _ in range(times):
            self.now_ms += 5
            if driver.node.left is None:
                driver.turn()

    def to_the_end(self) -> None:
        declare_end(self.log, open_job(self.log, counting()))
        driver = self.node()
        self.turn(driver, 400)
        assert driver.node.left is not None

    def read(self, topic: str) -> list[Any]:
        return [msgspec.json.decode(output.value) for output in OutputReader(self.log, topic).read_available()]


@pytest.mark.parametrize("bounded", [False, True])
def test_a_node_that_replays_decides_as_the_one_before_it(bounded: bool) -> None:
    """The first node dies without a checkpoint; the second one processes the records again, and more."""
    fleet = Fleet()
    open_job(fleet.log, counting(), bounded=bounded)
    fleet.put(0, NOW_MS, CENTURIES_MS, NOW_MS + 1)
    fleet.put(1, NOW_MS + 500)
    fleet.turn(fleet.node(), 30)
    fleet.put(1, CENTURIES_MS, NOW_MS + 600)
    fleet.to_the_end()
    dead, late = fleet.read(counting().outputs[DEAD].topic), fleet.read("counting.late")
    assert [(letter["partition"], letter["offset"]) for letter in dead] == ([] if bounded else [(0, 1), (1, 1)])
    assert len(late) == (2 if bounded else 0), "what a record from the future has closed"
    assert fleet.read("out")[0] == [NOW_MS, 2 if bounded else 4]


def test_a_job_that_goes_on_behind_its_end_has_the_guard_of_how_it_goes_on() -> None:
    fleet = Fleet()
    open_job(fleet.log, counting(), bounded=True)
    fleet.put(0, NOW_MS)
    fleet.to_the_end()
    continue_job(fleet.log, counting(), fleet.store)
    assert open_job(fleet.log, counting()).live_guard_ms == LIVE_MAX_FUTURE_SKEW_MS
    fleet.put(0, CENTURIES_MS)
    fleet.to_the_end()
    assert len(fleet.read(counting().outputs[DEAD].topic)) == 1
    continue_job(fleet.log, counting(), fleet.store, bounded=True)
    assert open_job(fleet.log, counting()).live_guard_ms is None
