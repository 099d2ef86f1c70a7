"""Whole benchmark runs on a real Kafka broker: fleets with killed nodes, proven by Spark, which reads Kafka itself."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from nodes.log.kafka.log import KafkaLog
from tests.integration.fleet_support import Command
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.nexmark.test_run import FINE, holon
from tests.integration.processes import until
from tests.shares import turn

# Two busy cores are shared with a JVM here: what is only slow must not be taken for dead all the time.
PATIENT = (*FINE, "-D", "node.failure_timeout_ms=1000")


pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def bootstrap() -> str:
    return session_bootstrap()


def run(bootstrap: str, *arguments: str) -> dict[str, Any]:
    """A run that must succeed."""
    code, result, said = holon("nexmark", "run", *arguments, "--log", "kafka", "--bootstrap", bootstrap)
    assert code == 0, f"{result}\n{said}"
    return result


def runs(log: KafkaLog) -> set[str]:
    """The prefixes of topics of runs that name no place; other tests may be at work on the same broker."""
    return {found[0] for topic in log.topics() if (found := re.match(r"nexmark-[0-9a-f]{8}\.", topic)) is not None}


@turn(1, of=3)
def test_spark_generates_into_kafka_and_proves_a_run_with_two_killed_nodes(bootstrap: str) -> None:
    with KafkaLog(bootstrap) as log:
        before = runs(log)
        result = run(
            bootstrap, "q7", "--events", "120000", "--partitions", "4", "--nodes", "3", "--kill", "1@0.3", "--kill",
            "2@0.6", *PATIENT, "--generator", "spark", "--validate", "spark",
        )  # fmt: skip
        after = runs(log) - before
        until(lambda: not (after & runs(log)), "a run that names no place leaves nothing behind")
    assert result["log"] == "kafka" and result["killed"] == [1, 2]
    assert (result["generator"], result["validator"]) == ("spark", "spark")
    assert result["validated"] is True and result["differences"] == 0 and result["conserved"]


@pytest.mark.long
def test_bad_records_and_a_node_that_comes_back(bootstrap: str) -> None:
    result = run(
        bootstrap, "query1", "--events", "60000", "--partitions", "2", "--nodes", "1", "--kill", "0@0.3",
        "--restart-after", "0.2", *PATIENT, "--dirty", "2", "--generator", "plain", "--validate", "plain",
    )  # fmt: skip
    assert result["validated"] is True and result["killed"] == [0]
    assert (result["dead"], result["late"]) == (2 * 4, 2 * 2)


@turn(2, of=3)
def test_spark_proves_sessions_of_a_flow_with_a_killed_node(bootstrap: str) -> None:
    result = run(
        bootstrap, "q11", "--api", "dataflow", "--events", "60000", "--partitions", "4", "--nodes", "2", "--kill",
        "1@0.3", *PATIENT, "--dirty", "2", "--generator", "plain", "--validate", "spark",
    )  # fmt: skip
    assert result["validated"] is True and result["killed"] == [1] and result["validator"] == "spark"
    assert (result["dead"], result["late"]) == (4 * 4, 4 * 2)


@pytest.mark.long
def test_a_paced_run_measures_latency(bootstrap: str) -> None:
    result = run(
        bootstrap, "q0", "--rate", "2000", "--seconds", "3", "--partitions", "2", "--nodes", "1", "--validate", "plain"
    )
    assert result["events"] == 6_000 and result["validated"] is True
    latency = result["latency_ms"]
    assert 0 <= latency["p50"] <= latency["p99"] <= latency["max"]


@pytest.mark.long
def test_a_job_that_is_stopped_goes_on_and_its_results_are_proven(bootstrap: str, tmp_path: Path) -> None:
    """`generate`, `run` until SIGTERM, `run` again, `validate`: each finds what the one before left on the broker."""
    place = ("--bootstrap", bootstrap, "-D", "log.prefix=stopped.", "-D", f"checkpoints.url={tmp_path}")
    code, made, said = holon("nexmark", "generate", "--events", "50000", "--partitions", "2", *place)
    assert code == 0, said
    assert made["events"] == 50_000
    fleet = ("run", "nexmark.queries:q7max", "--nodes", "2", "--no-view", "--json", *place, *PATIENT)
    with Command(*fleet) as command, KafkaLog(bootstrap, prefix="stopped.") as log:
        _until_saved(log)
        command.signal(signal.SIGTERM)
        stopped = command.json()
    assert stopped["ending"] == "stopped" and stopped["conserved"]
    with Command(*fleet, "--bounded") as command:
        done = command.json()
    assert done["ending"] == "done" and done["taken"] == 50_000 and done["conserved"]
    code, proof, said = holon("nexmark", "validate", "q7max", "--api", "procedural", "--validate", "plain", *place)
    assert code == 0 and proof["validated"] is True, said
    with KafkaLog(bootstrap, prefix="stopped.") as log:
        log.delete_topics(list(log.topics()))
        until(lambda: not log.topics(), "the broker, which takes its time over it, lists none of them")


def _until_saved(log: KafkaLog) -> None:
    """Wait until the job's control topic speaks of a checkpoint."""
    from nodes.machine import messages as m

    control = "_holon.nexmark-q7max.control"

    def saved() -> bool:
        if control not in log.topics():
            return False
        chunk = log.read(control, 0, log.start_offset(control, 0))
        return any(isinstance(m.decode_control(value), m.CheckpointSaved) for value in chunk.values)

    until(saved, "a checkpoint is saved")


def test_an_unknown_broker_is_named_within_seconds() -> None:
    code, result, _ = holon(
        "nexmark", "validate", "q7", "--log", "kafka", "--bootstrap", "127.0.0.1:1", "--validate", "plain"
    )
    assert code == 4
    assert "127.0.0.1:1" in result["error"]["message"]
