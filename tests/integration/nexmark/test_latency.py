"""`holon nexmark latency` and `failover`: small runs that look at the answers and the keys, never at the figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kafka_broker import session_bootstrap
from tests.integration.processes import ROOT
from tests.shares import share_of

PATIENT = ("-D", "node.failure_timeout_ms=1000")
LONG = ("--seconds", "9")
"""Events come at a rate: who measures, and kills, may stand still for seconds, and some still come after that."""
LATENCY_KEYS = {"query", "log", "rate", "seconds", "nodes", "replicas", "window_ms", "results", "latency_ms"}
FAILOVER_KEYS = {
    "scenario",
    "engine",
    "longest_delay_ms",
    "recovered_ms",
    "sensitivity",
    "repeats_dropped",
    "differences",
}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "nodes.cli", "nexmark", *arguments, "--json"]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def answer(*arguments: str) -> dict[str, Any]:
    done = command(*arguments, "--partitions", "2", "--warmup", "0", *PATIENT)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


@pytest.mark.long
@pytest.mark.parametrize("query", share_of(["q7max", "query1"], 2, __name__))
def test_latency_of_a_healthy_run(query: str, tmp_path: Path) -> None:
    picture = tmp_path / "latency.svg"
    log = ("--log", "embedded") if query == "query1" else ("--bootstrap", session_bootstrap())
    found = answer("latency", query, *log, "--rate", "400", *LONG, "--nodes", "2", "--plot", str(picture))
    assert found.keys() >= LATENCY_KEYS
    assert found["differences"] == 0 and found["events"] == 400 * 9
    assert 0 < found["results"] <= found["outputs"]
    assert found["latency_ms"]["avg"] <= found["latency_ms"]["max"]
    assert picture.read_text().startswith("<?xml")


@pytest.mark.long
def test_failover_with_a_node_that_is_killed(tmp_path: Path) -> None:
    picture = tmp_path / "failover.png"
    found = answer(
        "failover", "q7max", "--log", "embedded", "--scenario", "single", "--nodes", "2", "--rate", "400", *LONG,
        "--plot", str(picture),
    )  # fmt: skip
    (row,) = found["rows"]
    assert row.keys() >= LATENCY_KEYS | FAILOVER_KEYS
    assert (row["scenario"], row["engine"], row["killed"], row["differences"]) == ("single", "holon", [1], 0)
    assert row["longest_delay_ms"] > 0, "whoever takes over comes later than who was killed"
    assert picture.read_bytes().startswith(b"\x89PNG")
