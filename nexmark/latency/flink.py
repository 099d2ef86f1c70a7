"""Flink's side of the failure scenarios: the same producer, the same kills, latency from the same log."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nexmark.flink.cluster import FlinkCluster
from nexmark.flink.home import flink_home
from nexmark.flink.profiles import FlinkProfile
from nexmark.flink.rest import ENDED
from nexmark.flink.sql import TableTopics, latency_statements
from nexmark.latency.feed import FeedSpec
from nexmark.latency.figures import Delays, InputColumns, closing_ms, delays, expected_rows, read_input
from nexmark.latency.jobs import input_topic
from nexmark.latency.measure import LatencyOutcome, MeasuredFleet, ProducerProcess, Report
from nexmark.latency.plan import LatencyPlan
from nexmark.oracle import compare
from nexmark.times import parse_time_ms
from nodes.api import Log, RunFailed, Settings, SettingsError, open_job_log

TASK_MANAGER_MB = 1024
START_S = 300.0
QUIET_S = 60.0
"""After the producer's end, for results to come where some are still missing."""
POLL_INTERVAL_S = 0.5


class FlinkMeasured(NamedTuple):
    """``unfinished``: windows that were closed by the input and have no result."""

    measured: LatencyOutcome
    unfinished: int


class At(NamedTuple):
    """The window of a result, as in Holon's identities."""

    position: int


class FlinkResult(NamedTuple):
    """A result on the log."""

    identity: At
    timestamp_ms: int
    value: bytes


@dataclass(slots=True)
class Worker:
    """A task manager."""

    process: subprocess.Popen[bytes]


@dataclass(slots=True)
class TaskManagers:
    """Behaves as a fleet. Node n is the n-th of the task managers that work for the job."""

    cluster: FlinkCluster
    job: str
    awaited: int = 0

    def running(self) -> list[Worker]:
        """Those that live."""
        return [Worker(process) for process in self.cluster.task_managers if process.poll() is None]

    def kill(self, number: int) -> bool:
        """``kill -9``, without notice to the job manager. False if none works."""
        living = [
            number
            for number, process in enumerate(self.cluster.task_managers)
            if process.poll() is None and f"task-manager-{number}" in self.cluster.jobs.busy()
        ]
        if not living:
            return False
        process = self.cluster.task_managers[living[number % len(living)]]
        process.kill()
        process.wait()
        return True

    def add(self, number: int) -> object:
        """Another one, in place of one that was killed."""
        return self.cluster.add_task_manager()

    def check(self) -> None:
        """Raises ``RunFailed`` if the job has ended."""
        state = self.cluster.jobs.state(self.job)
        if state in ENDED:
            raise RunFailed(f"Flink's job is {state}: {self.cluster.jobs.failure(self.job)}")


def measure_flink(
    plan: LatencyPlan,
    profile: FlinkProfile,
    settings: Settings,
    folder: Path,
    report: Report,
    broker: int | None = None,
) -> FlinkMeasured:
    """Run the plan with Flink in place of Holon's nodes, one task manager with one slot for each of them."""
    if plan.query != "q7max":
        raise SettingsError(f"Flink's side of {plan.query} is not there; --engines flink needs q7max")
    assert settings.log.bootstrap is not None, "Flink reads Kafka"
    spare = max((len(fault.nodes) for fault in plan.faults), default=0) if profile.spare else 0
    run = time.time_ns() // 1_000_000
    topic, results = input_topic(run), f"flink-latency-{run}"
    more = profile.settings | {"parallelism.default": str(plan.nodes)}
    home = flink_home()
    with ExitStack() as stack:
        log = stack.enter_context(open_job_log(settings))
        log.create_topic(topic, plan.partitions)
        log.create_topic(results, 1)
        spec = FeedSpec(topic, plan.partitions, plan.rate, plan.events, plan.seed)
        feed = stack.enter_context(ProducerProcess(spec, settings))
        report(f"starting Flink, {profile.title}: {plan.nodes} task managers and {spare} to spare")
        cluster = stack.enter_context(
            FlinkCluster(
                home, folder / f"flink-{run}", cores=plan.nodes + spare, memory_mb=TASK_MANAGER_MB, more=more,
                task_managers=plan.nodes + spare,
            )
        )  # fmt: skip
        place = TableTopics(settings.log.bootstrap, settings.log.prefix + topic, settings.log.prefix + results, False)
        job = cluster.sql.submit(latency_statements(home.peer, plan.query, place, plan.window_ms), {})
        _wait(lambda: cluster.jobs.all_running(job), START_S, "Flink's tasks to run")
        ran = MeasuredFleet(plan, TaskManagers(cluster, job), None, report, broker)
        fed = ran.through(feed)
        report("reading results")
        columns = read_input(log, topic)
        outputs, repeats = _results(log, results, columns, plan)
        missing = closed_ends(plan, columns) - {output.identity.position for output in outputs}
        found = delays(outputs, columns, ran.began_ms)
        measured = LatencyOutcome(
            plan=plan, began_ms=ran.began_ms, ended_ms=ran.ended_ms, kills_ms=ran.kills_ms, killed=ran.killed,
            found=with_unfinished(found, columns, missing, ran.began_ms, ran.ended_ms), results=len(outputs),
            repeats_dropped=repeats, differences=_differences(plan, columns, outputs), feed=fed, load=ran.load,
        )  # fmt: skip
        return FlinkMeasured(measured, len(missing))


def _results(log: Log, topic: str, columns: Sequence[InputColumns], plan: LatencyPlan) -> tuple[list[FlinkResult], int]:
    """Results without duplicates, and how many there were; waits for those that are due, but not for ever."""
    wanted = closed_ends(plan, columns)
    deadline_s = time.monotonic() + QUIET_S
    while True:
        outputs, repeats = _read(log, topic)
        if wanted <= {output.identity.position for output in outputs} or time.monotonic() > deadline_s:
            return outputs, repeats
        time.sleep(POLL_INTERVAL_S)


def _read(log: Log, topic: str) -> tuple[list[FlinkResult], int]:
    outputs: dict[int, FlinkResult] = {}
    repeats = 0
    offset, end = log.start_offset(topic, 0), log.end_offset(topic, 0)
    while offset < end:
        chunk = log.read(topic, 0, offset)
        for value, stamp_ms in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
            row: dict[str, Any] = json.loads(value)
            row["window_end"] = parse_time_ms(row["window_end"])
            repeats += row["window_end"] in outputs
            outputs.setdefault(
                row["window_end"], FlinkResult(At(row["window_end"]), stamp_ms, json.dumps(row).encode())
            )
        offset = chunk.next_offset
    return list(outputs.values()), repeats


def closed_ends(plan: LatencyPlan, columns: Sequence[InputColumns]) -> set[int]:
    """Ends of the windows that the input has closed."""
    rows = expected_rows(plan.query, columns, plan.window_ms)
    return {row["window_end"] for row in rows if closing_ms(row["window_end"], columns) is not None}


def _differences(plan: LatencyPlan, columns: Sequence[InputColumns], outputs: Sequence[FlinkResult]) -> int:
    """Results that are not as they should be. One that is missing is not wrong, but unfinished."""
    there = {output.identity.position for output in outputs}
    rows = expected_rows(plan.query, columns, plan.window_ms)
    expected = [row for row in rows if row["window_end"] in there]
    return compare(expected, (json.loads(output.value) for output in outputs)).differences


def with_unfinished(
    found: Delays, columns: Sequence[InputColumns], missing: Iterable[int], began_ms: int, ended_ms: int
) -> Delays:
    """The delays, with those of windows (by their ends) without a result: at least the time until the run's end."""
    closed = [closing for end in missing if (closing := closing_ms(end, columns)) is not None]
    late = np.array([closing for closing in closed if began_ms <= closing <= ended_ms], dtype=np.int64)
    closes, waits = np.concatenate([found.closed_ms, late]), np.concatenate([found.delays_ms, ended_ms - late])
    order = np.argsort(closes, kind="stable")
    return Delays(closes[order], waits[order])


def _wait(done: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline_s = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline_s:
            raise RunFailed(f"waited {limit_s:.0f} s in vain for {what}")
        time.sleep(POLL_INTERVAL_S)


__all__ = ["FlinkMeasured", "TaskManagers", "closed_ends", "measure_flink", "with_unfinished"]
