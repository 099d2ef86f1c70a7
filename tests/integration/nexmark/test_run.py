"""Whole benchmark runs: real node processes on a real embedded log, proven by an oracle that shares no code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nexmark.flows import FLOWS
from nexmark.queries import QUERIES
from tests.shares import share_of, turn

pytestmark = pytest.mark.timeout(600)

# Small batches and frequent heartbeats: on a fast machine the run would be over before its progress is heard of.
FINE = ("-D", "node.batch_max_records=1000", "-D", "node.heartbeat_interval_ms=10")


def holon(*arguments: str, timeout_s: float = 550) -> tuple[int, Any, str]:
    """Run the command line: (exit code, JSON of standard output, standard error)."""
    done = subprocess.run(
        [sys.executable, "-m", "nodes.cli", *arguments, "--json"],
        capture_output=True, text=True, timeout=timeout_s, check=False, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"one line of JSON and nothing else: {done.stdout!r}\n{done.stderr}"
    return done.returncode, json.loads(lines[0]), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("query", share_of(QUERIES, 3, __name__))
def test_every_query_is_exact_with_a_node_killed_and_bad_records_among_the_input(query: str) -> None:
    code, result, said = holon(
        "nexmark", "run", query, "--api", "procedural", "--events", "150000", "--partitions", "4", "--nodes", "2",
        "--kill", "1@0.3", *FINE, "--dirty", "3", "--seed", "11", "--generator", "plain", "--validate", "plain",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    assert result["validated"] is True and result["differences"] == 0
    assert result["killed"] == [1] and result["api"] == "procedural"
    assert result["events"] == 150_000 + 4 * 9
    assert result["dead"] == 4 * 6, "corrupt and future records"
    assert result["late"] == (0 if query in ("q0", "q1", "q2", "q4official", "q8") else 4 * 3), "q8 filters bids"
    assert result["accepted"] + result["filtered"] + result["late"] + result["dead"] == result["events"]
    assert result["outputs"] > 0 and result["longest_delay_ms"] is not None


WITHOUT_LATE = ("q0", "q1", "q2", "q3", "q4official", "q8", "q14", "q21", "q22")


@pytest.mark.long
@pytest.mark.parametrize("query", share_of(FLOWS, 6, __name__))
def test_every_flow_is_exact_with_a_node_killed_and_bad_records_among_the_input(query: str) -> None:
    code, result, said = holon(
        "nexmark", "run", query, "--api", "dataflow", "--events", "40000", "--partitions", "4", "--nodes", "2",
        "--kill", "1@0.3", *FINE, "--dirty", "3", "--seed", "11", "--generator", "plain", "--validate", "plain",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    assert result["validated"] is True and result["differences"] == 0 and result["killed"] == [1]
    assert result["dead"] == 4 * 6, "corrupt and future records"
    assert result["late"] == (0 if query in WITHOUT_LATE else 4 * 3), "q3 and q8 filter bids"
    assert result["accepted"] + result["filtered"] + result["late"] + result["dead"] == result["events"]
    assert result["outputs"] > 0


@pytest.mark.long
@pytest.mark.parametrize("query", share_of(["q7", "q11", "q16"], 3, __name__))
def test_spark_proves_a_flow_with_a_kill_and_bad_atoms(query: str) -> None:
    code, result, said = holon(
        "nexmark", "run", query, "--api", "dataflow", "--format", "arrow", "--events", "60000", "--partitions", "2",
        "--kill", "1@0.3", "-D", "node.batch_max_records=1", "-D", "node.heartbeat_interval_ms=10",
        "--dirty", "5", "--generator", "plain", "--validate", "spark",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    assert result["validated"] is True and result["validator"] == "spark" and result["killed"] == [1]
    assert (result["dead"], result["late"]) == (2 * 10, 2 * 5)


@pytest.mark.long
def test_atoms_are_exact_with_a_node_killed_and_bad_ones_among_them() -> None:
    """``dirty`` adds damaged atoms, and late and future bids in atoms of their own."""
    code, result, said = holon(
        "nexmark", "run", "q7", "--api", "procedural", "--format", "arrow", "--events", "150000", "--partitions", "4",
        "--nodes", "2", "--kill", "1@0.3", "-D", "node.batch_max_records=1", "-D", "node.heartbeat_interval_ms=10",
        "--dirty", "5", "--seed", "11", "--generator", "plain", "--validate", "plain",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    assert result["validated"] is True and result["killed"] == [1]
    assert result["events"] == 150_000 + 4 * 15 and result["dead"] == 4 * 10
    assert result["late"] == 4 * 5 and result["conserved"] is True
    assert result["accepted"] + result["filtered"] + result["late"] + result["dead"] == result["events"]


@pytest.mark.long
def test_every_node_is_killed_once_and_comes_back() -> None:
    code, result, said = holon(
        "nexmark", "run", "q7", "--events", "400000", "--partitions", "6", "--nodes", "3", "--kill", "0@0.2",
        "--kill", "1@0.4", "--kill", "2@0.6", "--restart-after", "0.5", *FINE,
        "--generator", "plain", "--validate", "plain",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    assert sorted(result["killed"]) == [0, 1, 2] and result["validated"] is True and result["api"] == "dataflow"


@pytest.mark.long
def test_a_paced_run_measures_latency() -> None:
    code, result, said = holon(
        "nexmark", "run", "q7max", "--rate", "10000", "--seconds", "22", "--partitions", "2", "--nodes", "2",
        "--validate", "plain",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    latency = result["latency_ms"]
    assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert result["longest_delay_ms"] is None, "nobody was killed"


@pytest.mark.long
@turn(0, of=3)
def test_spark_proves_a_run_with_kill_and_bad_records() -> None:
    code, result, said = holon(
        "nexmark", "run", "q7", "--events", "120000", "--partitions", "3", "--kill", "0@0.4", *FINE, "--dirty", "2",
        "--generator", "plain", "--validate", "spark",
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    assert result["validated"] is True and result["validator"] == "spark"


@pytest.mark.long
def test_a_wrong_result_is_found(tmp_path: Path) -> None:
    """The proof can fail: one result is taken away behind the run's back."""
    code, result, said = holon(
        "nexmark", "run", "q7max", "--events", "250000", "--partitions", "2", "--generator", "plain", "--log-dir",
        str(tmp_path),
    )  # fmt: skip
    assert code == 0, f"{result}\n{said}"
    from nodes.api import OutputReader, open_log

    with open_log(tmp_path) as log:
        before = list(OutputReader(log, "q7max").read_available())
        lost = before[0]
        copies = log.read("q7max", lost.partition, 0)  # who is only slow loses partitions, and results come again
        last = max(at for at, value in enumerate(copies.values) if value == lost.value)
        log.delete_before("q7max", lost.partition, last + 1)
        gone = len(before) - len(list(OutputReader(log, "q7max").read_available()))
    assert gone >= 1
    code, result, said = holon("nexmark", "validate", "q7max", "--validate", "plain", "--log-dir", str(tmp_path))
    assert code == 1
    assert result["validated"] is False and result["differences"] == gone, said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nexmark", "run", "q77"], 2, "q7"),
        (["nexmark", "run", "q9"], 2, "yet"),
        (["nexmark", "run", "q11", "--api", "procedural"], 2, "--api procedural"),
        (["nexmark", "run", "query1", "--api", "dataflow"], 2, "no flow"),
        (["nexmark", "run", "q7", "--kill", "1"], 2, "NODE@FRACTION"),
        (["nexmark", "run", "q7", "--kill", "5@0.5"], 2, "nodes count from 0"),
        (["nexmark", "run", "q7", "--rate", "5"], 2, "--seconds"),
        (["nexmark", "run", "q7", "--rate", "5", "--seconds", "1", "--format", "arrow"], 2, "--events"),
        (["nexmark", "run", "q7", "--kill", "0@0.5", "--kill", "1@0.6"], 2, "--restart-after"),
        (["nexmark", "run", "q7", "--log", "embedded", "--bootstrap", "127.0.0.1:1"], 2, "--log kafka"),
        (["nexmark", "run", "q7", "--log-dir", "here", "--log", "kafka"], 2, "--log-dir"),
        (["nexmark", "generate", "--log", "kafka"], 2, "holon kafka up"),
        (["nexmark", "run", "q7", "--log", "kafka", "--bootstrap", "127.0.0.1:1"], 4, "127.0.0.1:1"),
    ],
)
def test_what_cannot_run_says_why(arguments: list[str], code: int, says: str) -> None:
    found, result, _ = holon(*arguments)
    assert found == code
    assert says in result["error"]["message"]


@pytest.mark.long
def test_without_java_the_run_goes_on_and_says_so_but_an_explicit_wish_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    common = ["nexmark", "run", "q7max", "--events", "20000", "--partitions", "2", "--nodes", "1"]
    code, result, said = holon(*common, "--validate", "auto")
    assert code == 0, said
    assert result["validator"] == "plain" and result["generator"] == "plain"
    assert "install" in said
    code, result, said = holon(*common, "--validate", "spark")
    assert code == 3
    assert "install" in result["error"]["message"]
