"""Holon in the comparison: a fleet of node processes, with all that it promises switched on."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from holon import Job
from nexmark.bench.answers import once_rows, open_columns
from nexmark.bench.jobs import bench_job
from nexmark.bench.meter import EngineMeter, Measure
from nexmark.bench.plan import CHECKPOINTS_S, ComparisonPlan, Variant
from nodes.api import (
    Fleet,
    Monitor,
    RunFailed,
    Settings,
    declare_end,
    open_job,
    open_job_log,
    refined,
)

LIMIT_S = 1800.0
POLL_INTERVAL_S = 0.05


@dataclass(slots=True)
class HolonEngine:
    """``settings`` name the log; every run has a job, topics and checkpoints of its own."""

    plan: ComparisonPlan
    settings: Settings
    name: str = "holon"

    def supports(self, variant: Variant) -> bool:
        """All of them."""
        return True

    def shown_settings(self) -> dict[str, str]:
        """The settings of its run that matter."""
        node = self.settings.node
        return {
            "nodes": str(self.plan.nodes),
            "node.replicas": str(node.replicas),
            "node.checkpoint_interval_ms": str(node.checkpoint_interval_ms),
            "node.broadcast_interval_ms": str(node.broadcast_interval_ms),
            "node.batch_max_records": str(node.batch_max_records),
        }

    def run(self, variant: Variant, number: int) -> tuple[Measure, str | None]:
        """One run over the whole topic: what it cost, and the topic of its results."""
        atoms = int(self.plan.format == "arrow")
        job = bench_job(variant.query, number, variant.sink, atoms)
        nowhere = int(variant.sink == "none")
        reference = f"nexmark.bench.jobs:{variant.query}?run={number}&nowhere={nowhere}&atoms={atoms}"
        measure = fleet_run(job, reference, self.settings, self.plan.nodes, self.plan.partitions)
        return measure, None if job.output is None else job.name

    def rows(self, query: str, topic: str) -> list[bytes]:
        """Results of a run, without duplicates."""
        with open_columns(self.settings) as log:
            return once_rows(log, topic)


def fleet_run(job: Job, reference: str, settings: Settings, nodes: int, partitions: int) -> Measure:
    """Run a job, which ``reference`` names, over the whole of its topic, with checkpoints of its own.

    Its time begins when every partition has an owner, and ends when all is in a durable checkpoint.
    """
    with tempfile.TemporaryDirectory(prefix="holon-bench-") as folder:
        more = [f"checkpoints.url={folder}", f"node.checkpoint_interval_ms={CHECKPOINTS_S * 1000:.0f}"]
        settings = refined(settings, more)
        with open_job_log(settings) as log:
            opened = open_job(log, job)
            declare_end(log, opened)
            monitor = Monitor(log, opened)
            fleet = Fleet(reference, settings, nodes)
            meter = EngineMeter(lambda: [member.process.pid for member in fleet.running()])
            try:
                with fleet:
                    parts = range(partitions)
                    _wait(fleet, monitor, lambda: all(monitor.ownership.owner(part) is not None for part in parts))
                    meter.begin()
                    _wait(fleet, monitor, lambda: monitor.done)
                    return meter.end()
            finally:
                meter.stop()


def _wait(fleet: Fleet, monitor: Monitor, done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    monitor.poll()
    while not done():
        fleet.check()
        if monitor.failure is not None:
            raise RunFailed(monitor.failure)
        if time.monotonic() > deadline_s:
            raise RunFailed(f"Holon was not done within {LIMIT_S:.0f} s")
        time.sleep(POLL_INTERVAL_S)
        monitor.poll()
