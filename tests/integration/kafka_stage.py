"""A stage of tests on a real Kafka broker; nodes may reach it each through a proxy of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from nodes.runtime.log_opening import open_settings_log
from nodes.settings.settings import load_settings
from tests.integration import jobs_mixed
from tests.integration.fleet_support import JOB, PARTITIONS, QUICK, Stage
from tests.integration.jobs_mixed import INPUT
from tests.integration.kafka_broker import session_bootstrap, session_prefix

_BY_COLUMNS = f"{jobs_mixed.__name__}:by_columns"
READERS = {"plain": (JOB, "librdkafka"), "columns": (_BY_COLUMNS, "librdkafka"), "own": (_BY_COLUMNS, "direct")}
"""The same job record by record and by columns where nodes read Kafka by confluent-kafka, and by columns over direct
connections. The last use librdkafka for what these do not know.
"""
OUTLASTS_ALL_CUTS = "log.timeout_ms=240000"
"""For tests in which a node that is cut off must not give its broker up, however slow the machine is."""


class KafkaStage(Stage):
    """Its topics have a prefix of their own, so that many stages share a broker."""

    def __init__(self, folder: Path, bootstrap: str, *definitions: str, partitions: int = PARTITIONS) -> None:
        self.path = folder
        self.partitions = partitions
        self.prefix = session_prefix(folder)
        kafka = ("log.kind=kafka", f"log.bootstrap={bootstrap}", f"log.prefix={self.prefix}")
        # Two busy cores are shared with a JVM here: what is only slow must not be taken for dead all the time.
        patient = ("node.failure_timeout_ms=1000", "log.timeout_ms=60000")
        own = (*QUICK, *patient, f"checkpoints.url={folder / 'checkpoints'}")
        self.definitions = (*kafka, *own, *definitions)
        self.settings = load_settings(definitions=self.definitions, environ={}, directory=folder)
        self.log = open_settings_log(self.settings)
        self.log.create_topic(INPUT, partitions)
        self.events = defaultdict(list)
        self._next = 0

    def read_by(self, reader: str) -> None:
        """One of ``READERS``; before the first node."""
        self.reference, how = READERS[reader]
        self.definitions = (*self.definitions, f"log.kafka.holon.reader={how}")
        self.settings = self.settings_with()


STAGES: dict[str, Callable[[Path], Stage]] = {
    "embedded": Stage,
    "kafka": lambda folder: KafkaStage(folder, session_bootstrap()),
}
"""A stage on each log, by its name: for tests that hold on both."""
