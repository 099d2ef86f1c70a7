"""The engines of a comparison: each runs a case over its topic and gives its rows, by means of the Nexmark bench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nexmark.bench.answers import once_rows, open_columns, plain_rows
from nexmark.bench.flink_engine import cluster_run
from nexmark.bench.holon_engine import fleet_run
from nexmark.bench.meter import Measure
from nexmark.bench.plan import CHECKPOINTS_S
from nexmark.bench.python_engine import by_worker, environment, processes_run
from nexmark.bench.python_home import PEERS, PythonHome
from nexmark.compare.cases import ComparedJob
from nexmark.compare.jobs import copy_of, reference_of, topic_of
from nexmark.flink.cluster import FlinkCluster
from nexmark.flink.sql import TableTopics, filled_statements
from nodes.api import Settings, load_job, open_job_log


class Engine(Protocol):
    """``run`` gives the costs of one run and its rows; raises ``RunFailed`` where it cannot."""

    def run(self, case: ComparedJob, number: int) -> tuple[Measure, list[bytes]]: ...

    def shown_settings(self) -> dict[str, str]: ...


def program_of(peer: str) -> Path:
    """The program of a peer in Python that runs the code of any case."""
    return PEERS / peer / "ordinary.py"


@dataclass(frozen=True, slots=True)
class Holon:
    """``name``: by columns, record by record, or as a flow."""

    name: str
    settings: Settings
    nodes: int
    partitions: int

    def run(self, case: ComparedJob, number: int) -> tuple[Measure, list[bytes]]:
        reference = case.job(self.name)
        job = copy_of(load_job(reference), topic_of(reference), number)
        measure = fleet_run(job, reference_of(reference, number), self.settings, self.nodes, self.partitions)
        with open_columns(self.settings) as log:
            return measure, once_rows(log, job.name)

    def shown_settings(self) -> dict[str, str]:
        node = self.settings.node
        return {
            "nodes": str(self.nodes),
            "node.replicas": str(node.replicas),
            "node.broadcast_interval_ms": str(node.broadcast_interval_ms),
            "node.batch_max_records": str(node.batch_max_records),
        }


@dataclass(frozen=True, slots=True)
class Flink:
    """One cluster for all runs, whose code stays compiled."""

    settings: Settings
    cluster: FlinkCluster
    partitions: int

    def run(self, case: ComparedJob, number: int) -> tuple[Measure, list[bytes]]:
        text = case.code("flink").read_text(encoding="utf-8")
        log, topic = self.settings.log, f"flink-{number}"
        assert log.bootstrap is not None, "the peers read Kafka"
        with open_job_log(self.settings) as opened:
            opened.create_topic(topic, self.partitions)
        place = TableTopics(log.bootstrap, log.prefix + topic_of(case.reference), log.prefix + topic)
        every = {"execution.checkpointing.interval": f"{CHECKPOINTS_S:g} s"}
        measure = cluster_run(self.cluster, filled_statements(text, place), every)
        with open_columns(self.settings) as opened:
            return measure, plain_rows(opened, topic)

    def shown_settings(self) -> dict[str, str]:
        return self.cluster.settings | {"garbage collector": self.cluster.collector}


@dataclass(frozen=True, slots=True)
class PythonPeer:
    """``workers``: as many processes of Bytewax, or threads of Pathway; Quix has one process."""

    name: str
    settings: Settings
    home: PythonHome
    folder: Path
    partitions: int
    workers: int

    def run(self, case: ComparedJob, number: int) -> tuple[Measure, list[bytes]]:
        log = self.settings.log
        assert log.bootstrap is not None, "the peers read Kafka"
        line = [str(self.home.python), str(program_of(self.name)), "--bootstrap", log.bootstrap]
        line += ["--topic", log.prefix + topic_of(case.reference), "--partitions", str(self.partitions)]
        line += ["--job", str(case.code(self.name)), "--folder", str(self.folder / str(number))]
        commands = by_worker(line, self.workers) if self.name == "bytewax" else [line]
        return processes_run(commands, self.folder, str(number), environment(self.workers), self.name)

    def shown_settings(self) -> dict[str, str]:
        workers = {"bytewax": f"{self.workers} processes", "pathway": f"{self.workers} threads"}.get(self.name, "1")
        return {"version": self.home.version, "workers": workers}
