"""Flink in the comparison: one cluster for all runs, so that its virtual machine stays warm."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nexmark.bench.answers import last_rows, open_columns, plain_rows
from nexmark.bench.meter import EngineMeter, Measure
from nexmark.bench.plan import CHECKPOINTS_S, ComparisonPlan, Variant
from nexmark.flink.cluster import FlinkCluster
from nexmark.flink.rest import ENDED
from nexmark.flink.sql import CHANGELOGS, TableTopics, statements
from nodes.api import RunFailed, Settings, open_job_log

LIMIT_S = 1800.0
POLL_INTERVAL_S = 0.25
"""Rarely, since each poll costs the job manager CPU on the same cores; times come from Flink's own clock."""


@dataclass(slots=True)
class FlinkEngine:
    """``events`` is the topic as the broker knows it; ``prefix`` precedes the topics of results."""

    plan: ComparisonPlan
    settings: Settings
    cluster: FlinkCluster
    events: str
    name: str = "flink"

    def supports(self, variant: Variant) -> bool:
        """All of them."""
        return True

    def shown_settings(self) -> dict[str, str]:
        """Every setting that is not a default."""
        return self.cluster.settings | {"garbage collector": self.cluster.collector}

    def run(self, variant: Variant, number: int) -> tuple[Measure, str | None]:
        """One run over the whole topic: what it cost, and the topic of its results (as Holon's log names it)."""
        topic = f"flink-{variant.query}-{number}" if variant.sink == "kafka" else None
        log = self.settings.log
        if topic is not None:
            with open_job_log(self.settings) as opened:
                opened.create_topic(topic, self.plan.partitions)
        assert log.bootstrap is not None, "the comparison runs on Kafka"
        place = TableTopics(log.bootstrap, self.events, None if topic is None else log.prefix + topic)
        settings = {"execution.checkpointing.interval": f"{CHECKPOINTS_S:g} s"} if variant.checkpoints else {}
        return cluster_run(self.cluster, statements(self.cluster.home.peer, variant.query, place), settings), topic

    def rows(self, query: str, topic: str) -> list[bytes]:
        """Results of a run; of a changelog the last row of each key."""
        with open_columns(self.settings) as log:
            return last_rows(log, topic) if query in CHANGELOGS else plain_rows(log, topic)


def cluster_run(cluster: FlinkCluster, statements: list[str], settings: dict[str, str]) -> Measure:
    """Run a job over bounded sources. Its time is from when all of its tasks run to the end of the last one."""
    workers = [process.pid for process in cluster.task_managers]
    meter = EngineMeter(lambda: workers)
    jobs = cluster.jobs
    meter.begin()
    try:
        job = cluster.sql.submit(statements, settings)
        deadline_s = time.monotonic() + LIMIT_S
        while (state := jobs.state(job)) not in ENDED:
            if time.monotonic() > deadline_s:
                raise RunFailed(f"Flink was not done within {LIMIT_S:.0f} s")
            time.sleep(POLL_INTERVAL_S)
        if state != "FINISHED":
            raise RunFailed(f"Flink's job is {state}: {jobs.failure(job)}\n{cluster.log_ends()}")
        times = jobs.times(job)
        return meter.end(times.began_ms / 1000, times.ended_ms / 1000)
    finally:
        meter.stop()
