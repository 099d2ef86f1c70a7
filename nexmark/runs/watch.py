"""Watch a fleet through one run: feed it, kill nodes at shares of the input, start them again, see the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from nexmark.oracle import RecordCounts
from nexmark.queries import TOPIC
from nexmark.runs.fill import PacedFeed, stream_of
from nexmark.runs.plan import Kill, RunPlan
from nodes.api import Fleet, Log, Monitor, RunFailed, Settings, declare_end, open_job, wait_for


@dataclass(slots=True)
class Progress:
    """For the live view: the phase, and how far it is."""

    phase: str = ""
    done: int = 0
    total: int = 0


Show = Callable[[Progress], None]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ran:
    """The figures known when the fleet is done. Times are those of the machine's clock, as the log's."""

    counts: RecordCounts
    killed: list[int]
    kills_ms: list[int]
    started_ms: int
    ended_ms: int
    peak_bytes: int
    steals: int

    @property
    def seconds(self) -> float:
        """From the moment at which every partition has an owner to the moment at which all is answered, durably."""
        return max((self.ended_ms - self.started_ms) / 1000, 1e-3)


def watch(plan: RunPlan, settings: Settings, log: Log, show: Show, report: Report) -> Ran:
    """Run the fleet until all is answered; raises ``RunFailed`` if that does not come.

    The end of the input is declared after the last kill: a run that is over before a kill would not have tested it.
    """
    if plan.rate is not None:
        log.create_topic(TOPIC, plan.partitions)
    run = open_job(log, plan.job())
    stream = stream_of(plan)
    count = stream.records_in if plan.rate is not None else partial(log.end_offset, TOPIC)
    ends = [count(p) for p in range(plan.partitions)]
    total = sum(ends)
    fleet = Fleet(plan.job_reference, settings, plan.nodes)
    feed, declare = PacedFeed(log, plan) if plan.rate else None, partial(declare_end, log, run, ends)
    watched = _Watch(plan, Monitor(log, run), fleet, _Kills(plan, total), feed, declare)
    watched.maybe_declare_end()
    try:
        with fleet:
            wait_for(fleet, watched.monitor.ownership.all_done, lambda: watched.tick(total, show, report))
            ended_ms = _now_ms()
    finally:
        if watched.feed is not None:
            watched.feed.stop()
    return watched.ran(ended_ms)


@dataclass(slots=True)
class _Watch:
    plan: RunPlan
    monitor: Monitor
    fleet: Fleet
    kills: _Kills
    feed: PacedFeed | None
    declare_end: Callable[[], object]
    started_ms: int | None = None
    _declared: bool = False

    def maybe_declare_end(self) -> None:
        """Unless a kill is still to come."""
        if not self._declared and not self.kills.due:
            self._declared = True
            self.declare_end()

    def tick(self, total: int, show: Show, report: Report) -> None:
        self.monitor.poll()
        if self.monitor.failure is not None:
            raise RunFailed(self.monitor.failure)
        owned = (self.monitor.ownership.owner(p) is not None for p in range(self.plan.partitions))
        if self.started_ms is None and all(owned):
            self.started_ms = _now_ms()
            if self.feed is not None:
                self.feed.start()
        if self.feed is not None:
            self.feed.check()
        self.kills.tick(self.monitor.consumed, self.fleet, report)
        self.maybe_declare_end()
        show(Progress("running", self.monitor.consumed, total))

    def ran(self, ended_ms: int) -> Ran:
        self.monitor.poll()
        counts = self.monitor.counts()
        return Ran(
            RecordCounts(counts.accepted, counts.filtered, counts.late, counts.dead),
            self.kills.killed,
            self.kills.times_ms,
            ended_ms if self.started_ms is None else self.started_ms,
            ended_ms,
            self.fleet.peak_bytes,
            self.monitor.steals,
        )


class _Kills:
    """Kills at their shares of the input, and restarts after their time."""

    def __init__(self, plan: RunPlan, total: int) -> None:
        self.plan = plan
        self.total = total
        self.due: list[Kill] = sorted(plan.kills, key=lambda kill: kill.fraction)
        self.killed: list[int] = []
        self.times_ms: list[int] = []
        self._restarts: list[tuple[float, int]] = []

    def tick(self, consumed: int, fleet: Fleet, report: Report) -> None:
        while self.due and consumed >= self.due[0].fraction * self.total:
            kill = self.due.pop(0)
            at_ms = _now_ms()
            if not fleet.kill(kill.node):
                raise RunFailed(f"node {kill.node} was to be killed at {kill.fraction:.0%}, but it does not run")
            self.killed.append(kill.node)
            self.times_ms.append(at_ms)
            report(f"kill -9 of node {kill.node} after {consumed:,} of {self.total:,} records")
            if self.plan.restart_after_s is not None:
                self._restarts.append((time.monotonic() + self.plan.restart_after_s, kill.node))
                fleet.awaited += 1
        while self._restarts and self._restarts[0][0] <= time.monotonic():
            _, number = self._restarts.pop(0)
            fleet.add(number)
            fleet.awaited -= 1
            report(f"node {number} started again")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
