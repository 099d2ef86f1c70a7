"""One measurement: a fleet, a producer at a steady rate, nodes that are killed, and the results on the log."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from nexmark.latency.feed import LEAD_MS, Fed, FeedSpec
from nexmark.latency.figures import Delays, delays, differences, read_input
from nexmark.latency.jobs import input_topic, windowed_job
from nexmark.latency.load import Load, LoadMeter
from nexmark.latency.plan import LatencyPlan
from nodes.api import (
    Fleet,
    Log,
    Monitor,
    OutputReader,
    RunFailed,
    Settings,
    child_environment,
    declare_end,
    deferred_interrupts,
    module_command,
    open_job,
    open_job_log,
)

POLL_INTERVAL_S = 0.05
MONITOR_S = 1.0
START_S = 60.0
FINISH_S = 120.0
Report = Callable[[str], None]


@dataclass(slots=True)
class LatencyOutcome:
    """The outcome. Times are those of the log's clock."""

    plan: LatencyPlan
    began_ms: int
    ended_ms: int
    kills_ms: list[int]
    killed: list[int]
    found: Delays
    results: int
    repeats_dropped: int
    differences: int
    feed: Fed
    load: Load


def measure(plan: LatencyPlan, settings: Settings, report: Report, broker: int | None = None) -> LatencyOutcome:
    """Run the plan on the settings' log; ``broker``: process id of a local one, for its share of the load."""
    run = time.time_ns() // 1_000_000
    topic = input_topic(run)
    with ExitStack() as stack:
        log = stack.enter_context(open_job_log(settings))
        log.create_topic(topic, plan.partitions)
        job = windowed_job(plan.query, plan.window_ms, run)
        opened = open_job(log, job)
        fleet = Fleet(plan.reference(run), settings, plan.nodes)
        ran = MeasuredFleet(plan, fleet, Monitor(log, opened), report, broker)
        spec = FeedSpec(topic, plan.partitions, plan.rate, plan.events, plan.seed)
        feed = stack.enter_context(ProducerProcess(spec, settings))
        stack.enter_context(fleet)
        ran.until_owned()
        fed = ran.through(feed)
        declare_end(log, opened)
        ran.until_done()
        return _evaluated(ran, log, topic, job.name, fed)


def _evaluated(ran: MeasuredFleet, log: Log, topic: str, results: str, fed: Fed) -> LatencyOutcome:
    ran.report("reading results")
    plan, columns = ran.plan, read_input(log, topic)
    reader = OutputReader(log, results, verify_repeats=True)
    outputs: Sequence[Any] = list(reader.read_available())
    if reader.differing_repeats:
        raise RunFailed(f"{reader.differing_repeats} repeated results differ from their first copies")
    return LatencyOutcome(
        plan=plan,
        began_ms=ran.began_ms,
        ended_ms=ran.ended_ms,
        kills_ms=ran.kills_ms,
        killed=ran.killed,
        found=delays(outputs, columns, ran.began_ms),
        results=len(outputs),
        repeats_dropped=reader.repeats_dropped,
        differences=differences(plan.query, columns, plan.window_ms, outputs),
        feed=fed,
        load=ran.load,
    )


class ProducerProcess:
    """The producer's process."""

    def __init__(self, spec: FeedSpec, settings: Settings) -> None:
        self._command = module_command("nexmark.latency.feed", msgspec.json.encode(spec).decode())
        self._environment = child_environment(settings.environment())
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ProducerProcess:
        pipe = subprocess.PIPE
        try:
            with deferred_interrupts():
                self.process = subprocess.Popen(  # a group of its own: Ctrl-C is the parent's, which ends it
                    self._command, env=self._environment, stdin=pipe, stdout=pipe, text=True, process_group=0
                )
        except KeyboardInterrupt:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def begin(self) -> None:
        """Wait until it is ready, and let it go."""
        assert self.process is not None and self.process.stdout is not None and self.process.stdin is not None
        if self.process.stdout.readline().strip() != "ready":
            raise RunFailed("the producer has ended before it was ready; see the messages above")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def running(self) -> bool:
        assert self.process is not None
        return self.process.poll() is None

    def fed(self) -> Fed:
        """Its last message."""
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        if self.process.wait() != 0 or not line:
            raise RunFailed("the producer has failed; see the messages above")
        return msgspec.json.decode(line, type=Fed)


@dataclass(slots=True)
class _Due:
    """Something to do at a time."""

    at_s: float
    node: int
    kill: bool
    restart_after_s: float | None = None


class MeasuredProcess(Protocol):
    """A process that can be killed."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...


class Members(Protocol):
    """The measured system: a fleet of Holon's nodes, or another engine's processes that behave as one."""

    awaited: int

    def running(self) -> Sequence[MeasuredProcess]: ...
    def kill(self, number: int) -> bool: ...
    def add(self, number: int) -> object: ...
    def check(self) -> None: ...


@dataclass(slots=True)
class MeasuredFleet:
    """The time in which the fleet runs. It polls rarely, since it shares the machine with what is measured."""

    plan: LatencyPlan
    fleet: Members
    monitor: Monitor | None
    report: Report
    broker: int | None
    began_ms: int = 0
    ended_ms: int = 0
    kills_ms: list[int] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    load: Load = field(default_factory=lambda: Load(0.0, 0.0, None, 0.0))
    _due: list[_Due] = field(default_factory=list)

    def until_owned(self) -> None:
        """All partitions have owners, and all nodes have come."""
        self.report(f"starting {self.plan.nodes} nodes")
        assert self.monitor is not None, "a fleet of Holon's is watched"
        ownership = self.monitor.ownership
        self._wait(
            lambda: (
                len(ownership.members) >= self.plan.nodes
                and all(ownership.owner(partition) is not None for partition in range(self.plan.partitions))
            ),
            START_S,
            "the nodes to share the partitions",
        )

    def through(self, feed: ProducerProcess) -> Fed:
        """Produce, and kill on time."""
        plan = self.plan
        feed.begin()
        self.began_ms = _now_ms() + int(plan.warmup_s * 1000)
        self.report(f"{plan.rate:,} events/s for {plan.seconds:g} s, after {plan.warmup_s:g} s to warm up")
        begin_s = time.monotonic() + plan.warmup_s
        self._due = [
            _Due(begin_s + fault.at_s, node, True, fault.restart_after_s)
            for fault in plan.faults
            for node in fault.nodes
        ]
        meter: LoadMeter | None = None
        sampled_s = 0.0
        while feed.running():
            now_s = time.monotonic()
            self._do(now_s)
            if now_s - sampled_s > MONITOR_S and now_s >= begin_s:
                sampled_s = now_s
                meter = meter or LoadMeter()
                self._sample(meter, feed)
            time.sleep(POLL_INTERVAL_S)
        self.ended_ms = _now_ms()
        if meter is not None:
            self._sample(meter, feed)
            self.load = meter.read()
        while any(not due.kill for due in self._due):
            self._do(time.monotonic())  # who is to come back comes back
            time.sleep(POLL_INTERVAL_S)
        fed = feed.fed()
        # By the producer's report: where this process was stopped at the beginning, windows would be left out.
        self.began_ms = fed.base_ms - LEAD_MS + int(plan.warmup_s * 1000)
        return fed

    def until_done(self) -> None:
        """Every window is answered, durably."""
        monitor = self.monitor
        assert monitor is not None, "a fleet of Holon's is watched"
        self._wait(lambda: monitor.done, FINISH_S, "all windows to be answered")

    def _wait(self, done: Callable[[], bool], limit_s: float, what: str) -> None:
        assert self.monitor is not None, "a fleet of Holon's is watched"
        deadline_s = time.monotonic() + limit_s
        self.monitor.poll()
        while not done():
            self.fleet.check()
            if self.monitor.failure is not None:
                raise RunFailed(self.monitor.failure)
            if time.monotonic() > deadline_s:
                raise RunFailed(f"waited {limit_s:.0f} s in vain for {what}")
            time.sleep(POLL_INTERVAL_S)
            self.monitor.poll()

    def _sample(self, meter: LoadMeter, feed: ProducerProcess) -> None:
        self.fleet.check()
        ids = [member.process.pid for member in self.fleet.running()]
        producer = [] if feed.process is None else [feed.process.pid]
        meter.sample({"nodes": ids, "feed": producer, "broker": [] if self.broker is None else [self.broker]})

    def _do(self, now_s: float) -> None:
        for due in [due for due in self._due if due.at_s <= now_s]:
            self._due.remove(due)
            if not due.kill:
                self.fleet.add(due.node)
                self.fleet.awaited -= 1
                self.report(f"node {due.node} started again")
                continue
            at_ms = _now_ms()
            if not self.fleet.kill(due.node):
                raise RunFailed(f"node {due.node} was to be killed, but it does not run")
            self.kills_ms.append(at_ms)
            self.killed.append(due.node)
            self.report(f"kill -9 of node {due.node}")
            if due.restart_after_s is not None:
                self.fleet.awaited += 1
                self._due.append(_Due(now_s + due.restart_after_s, due.node, False))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
