"""Execute a run: the fleet over the filled topic, kills at shares of the input, results read back and proven."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holon import Track
from nexmark.oracle import Counts, Verdict
from nexmark.queries import TOPIC, nexmark_job
from nexmark.runs.fill import PacedFeed, fill, stream_of, uses_spark
from nexmark.runs.measure import Latency, input_timestamps, longest_delay, record_latency, window_latency
from nexmark.runs.plan import Kill, Plan
from nexmark.runs.validate import chosen_validator, validate
from nodes.api import (
    Fleet,
    Log,
    Monitor,
    OutputReader,
    RunFailed,
    Settings,
    declare_end,
    open_job,
    open_job_log,
    wait_for,
)


class RunResult(msgspec.Struct):
    """The JSON of ``holon nexmark run`` (keys: the command line's contract)."""

    query: str
    log: str
    events: int
    partitions: int
    nodes: int
    replicas: int
    seed: int
    killed: list[int]
    outputs: int
    repeats_dropped: int
    accepted: int
    filtered: int
    late: int
    dead: int
    conserved: bool
    events_per_s: float
    latency_ms: Latency | None
    longest_delay_ms: float | None
    validated: bool | None
    validator: str | None
    differences: int | None
    first_differences: list[str]
    steals: int
    generator: str
    generate_s: float
    wall_s: float
    peak_uss_mb: float


@dataclass(slots=True)
class Progress:
    """Told to whoever shows the run: the phase, and how far it is."""

    phase: str = ""
    done: int = 0
    total: int = 0
    notes: list[str] = field(default_factory=list)


Show = Callable[[Progress], None]
Say = Callable[[str], None]


@dataclass(slots=True)
class _Ran:
    """What is known when the fleet is done."""

    counts: Counts
    killed: list[int]
    kills_ms: list[int]
    started_ms: int
    ended_ms: int
    peak_bytes: int
    steals: int


def execute(plan: Plan, settings: Settings, show: Show, say: Say) -> RunResult:
    """Run the plan on the settings' log; raises ``RunFailed`` if it does not come to its end."""
    begun = time.monotonic()
    validator = chosen_validator(plan.validator, say)
    spark = uses_spark(plan, say)
    log_path = settings.log.path
    with ExitStack() as stack:
        if spark or validator == "spark":
            from nexmark.spark.session import spark_session

            show(Progress("starting Spark"))
            stack.enter_context(spark_session())
        log = stack.enter_context(open_job_log(settings))
        filled = time.monotonic()
        if plan.rate is None:
            show(Progress("generating", 0, plan.events))
            fill(log, log_path, plan, spark=spark, progress=lambda n: show(Progress("generating", n, plan.events)))
        generate_s = time.monotonic() - filled
        ran = _run_fleet(plan, settings, log, show, say)
        show(Progress("reading results"))
        reader = OutputReader(log, plan.query, verify_repeats=True)
        outputs = list(reader.read_available())
        if reader.differing_repeats:
            raise RunFailed(f"{reader.differing_repeats} repeated results differ from their first copies")
        verdict = _proven(plan, validator, log, log_path, outputs, ran.counts, show)
        seconds = max((ran.ended_ms - ran.started_ms) / 1000, 1e-3)
        return RunResult(
            query=plan.query,
            log=settings.log.kind,
            events=ran.counts.total,
            partitions=plan.partitions,
            nodes=plan.nodes,
            replicas=1,
            seed=plan.seed,
            killed=ran.killed,
            outputs=len(outputs),
            repeats_dropped=reader.repeats_dropped,
            accepted=ran.counts.accepted,
            filtered=ran.counts.filtered,
            late=ran.counts.late,
            dead=ran.counts.dead,
            conserved=ran.counts.total == _input_records(log, plan),
            events_per_s=round(ran.counts.total / seconds, 1),
            latency_ms=_latency(plan, log, outputs),
            longest_delay_ms=longest_delay(
                outputs,
                ran.kills_ms,
                ran.started_ms,
                ran.ended_ms,
                paced=plan.rate is not None,
            ),
            validated=None if verdict is None else verdict.validated,
            validator=None if verdict is None else validator,
            differences=None if verdict is None else verdict.differences,
            first_differences=[] if verdict is None else verdict.first,
            steals=ran.steals,
            generator="spark" if spark else "plain",
            generate_s=round(generate_s, 3),
            wall_s=round(time.monotonic() - begun, 3),
            peak_uss_mb=round(ran.peak_bytes / 1e6, 1),
        )


def _run_fleet(plan: Plan, settings: Settings, log: Log, show: Show, say: Say) -> _Ran:
    stream = stream_of(plan)
    if plan.rate is not None:
        log.create_topic(TOPIC, plan.partitions)
    run = open_job(log, nexmark_job(plan.query, **plan.job_options))
    ends = None if plan.rate is None else [stream.records_in(p) for p in range(plan.partitions)]
    total = sum(declare_end(log, run, ends))
    monitor = Monitor(log, run)
    kills = _Kills(plan, total)
    feed = None if plan.rate is None else PacedFeed(log, plan)
    started_ms: list[int] = []

    def tick() -> None:
        monitor.poll()
        if monitor.failure is not None:
            raise RunFailed(monitor.failure)
        if not started_ms and all(monitor.ownership.owner(p) is not None for p in range(plan.partitions)):
            started_ms.append(_now_ms())
            if feed is not None:
                feed.start()
        if feed is not None:
            feed.check()
        kills.tick(monitor.consumed, fleet, say)
        show(Progress("running", monitor.consumed, total))

    fleet = Fleet(plan.job_reference, settings, plan.nodes, crashpoints=dict(plan.crashpoints))
    try:
        with fleet:
            wait_for(fleet, monitor.ownership.all_done, tick)
            ended_ms = _now_ms()
    finally:
        if feed is not None:
            feed.stop()
    kills.check(monitor.consumed)
    monitor.poll()
    counts = monitor.counts()
    return _Ran(
        Counts(counts.accepted, counts.filtered, counts.late, counts.dead),
        kills.killed,
        kills.times_ms,
        started_ms[0] if started_ms else ended_ms,
        ended_ms,
        fleet.peak_bytes,
        monitor.steals,
    )


class _Kills:
    """Kills at their shares of the input, and restarts after their time."""

    def __init__(self, plan: Plan, total: int) -> None:
        self.plan = plan
        self.total = total
        self.due: list[Kill] = sorted(plan.kills, key=lambda kill: kill.fraction)
        self.killed: list[int] = []
        self.times_ms: list[int] = []
        self._restarts: list[tuple[float, int]] = []

    def tick(self, consumed: int, fleet: Fleet, say: Say) -> None:
        while self.due and consumed >= self.due[0].fraction * self.total and consumed < self.total:
            kill = self.due.pop(0)
            at_ms = _now_ms()
            if not fleet.kill(kill.node):
                raise RunFailed(f"node {kill.node} was to be killed at {kill.fraction:.0%}, but it does not run")
            self.killed.append(kill.node)
            self.times_ms.append(at_ms)
            say(f"kill -9 of node {kill.node} after {consumed:,} of {self.total:,} records")
            if self.plan.restart_after_s is not None:
                self._restarts.append((time.monotonic() + self.plan.restart_after_s, kill.node))
        while self._restarts and self._restarts[0][0] <= time.monotonic():
            _, number = self._restarts.pop(0)
            fleet.add(number)
            say(f"node {number} started again")

    def check(self, consumed: int) -> None:
        """A kill that came too late did not test anything."""
        if self.due:
            missed = ", ".join(f"{kill.node}@{kill.fraction}" for kill in self.due)
            raise RunFailed(
                f"the run was over before --kill {missed} (last seen at {consumed:,} of {self.total:,} records); "
                f"take more events or a smaller fraction"
            )


def _proven(
    plan: Plan, validator: str | None, log: Log, log_path: str, outputs: list[Any], counts: Counts, show: Show
) -> Verdict | None:
    if validator is None:
        return None
    show(Progress(f"validating with {validator}"))
    lines = [output.value for output in outputs]
    return validate(validator, plan.query, log, log_path, lines, counts, skew_guard_ms=plan.skew_guard_ms)


def _input_records(log: Log, plan: Plan) -> int:
    return sum(log.end_offset(TOPIC, p) - log.start_offset(TOPIC, p) for p in range(plan.partitions))


def _latency(plan: Plan, log: Log, outputs: list[Any]) -> Latency | None:
    if plan.rate is None or not outputs:
        return None
    appended = input_timestamps(log, TOPIC, plan.partitions)
    if outputs[0].identity.track is Track.WINDOW:
        return window_latency(outputs, stream_of(plan), appended, lambda output: output.identity.position)
    return record_latency(outputs, appended)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def as_text(result: RunResult) -> str:
    """The result for people."""
    proof = "not validated (ask with --validate)"
    if result.validated is not None:
        proof = f"{'exact' if result.validated else 'WRONG'}, says {result.validator}: {result.differences} differences"
    identity = (
        f"{result.accepted:,} accepted + {result.filtered:,} filtered + {result.late:,} late + {result.dead:,} dead"
    )
    lines = [
        f"{result.query}: {result.outputs:,} results from {result.events:,} events on {result.partitions} partitions, "
        f"{result.nodes} nodes, killed {result.killed or 'none'}",
        f"  in = {identity} {'(holds)' if result.conserved else '(DOES NOT HOLD)'}",
        f"  {result.events_per_s:,.0f} events/s, {result.repeats_dropped} repeats dropped, "
        f"{result.peak_uss_mb:.0f} MB at most a node, {result.wall_s:.1f} s in all",
        f"  {proof}",
    ]
    if result.longest_delay_ms is not None:
        lines.insert(3, f"  longest gap between results around a kill: {result.longest_delay_ms:.0f} ms")
    if result.latency_ms is not None:
        latency = json.dumps({k: round(v, 1) for k, v in msgspec.to_builtins(result.latency_ms).items()})
        lines.insert(3, f"  latency in ms: {latency}")
    lines += [f"  {line}" for line in result.first_differences]
    return "\n".join(lines)
