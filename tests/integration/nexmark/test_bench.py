"""Engines side by side: a small run that looks at answers and keys, never at figures; with Flink itself at night."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodes.log import LogAddress, open_log
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.processes import ROOT, until

PATIENT = ("-D", "node.failure_timeout_ms=1000")
ROW_KEYS = {"query", "engine", "sink", "checkpoints_s", "events_per_s", "events_per_cpu_s", "peak_uss_mb"}


def bench(*arguments: str, limit_s: float = 880, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and standard error."""
    line = [sys.executable, "-m", "nodes.cli", "nexmark", "bench", "--generator", "plain", "--json", *arguments]
    done = subprocess.run(
        [*line, "--bootstrap", session_bootstrap(), *PATIENT],
        cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False, env=os.environ | environment,
    )  # fmt: skip
    assert done.stdout.count("\n") == 1, f"one line of JSON and nothing else: {done.stdout!r}\n{done.stderr}"
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_without_java_holon_is_measured_alone_and_the_run_says_who_is_missing(tmp_path: Path) -> None:
    arguments = (
        "--queries",
        "q0,q5",
        "--events",
        "12000",
        "--pairs",
        "1",
        "--partitions",
        "2",
        "--nodes",
        "1",
        "--broker-warmup",
        "1",
    )
    code, found, said = bench(*arguments, "--out", str(tmp_path), JAVA_HOME="/nonexistent")
    assert code == 3, said
    assert "--allow-missing-peers" in said and "install" in found["missing_peers"]["flink"]
    assert all(row.keys() >= ROW_KEYS and row["engine"] == "holon" for row in found["rows"])
    assert [(row["variant"], row["sink"]) for row in found["rows"]] == [
        ("q0", "none"), ("q5", "none"), ("q0:kafka", "kafka")
    ]  # fmt: skip
    assert found["broker_warmup"]["read_mb"] > 0, "a topic of 12,000 events has 4 MB, read again and again"
    assert (found["ratios"], found["agree"], found["events"]) == ({}, None, 12_000)
    assert {answer["query"]: answer["rows"]["holon"] > 0 for answer in found["answers"]} == {"q0": True, "q5": True}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json", "bench.md", "bench.svg"]
    with open_log(LogAddress(f"kafka:{session_bootstrap()}")) as log:
        until(
            lambda: not [topic for topic in log.topics() if topic.startswith("nexmark-bench-")],
            "the broker, which takes its time over it, lists none of its topics",
        )


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_flink_gives_the_same_answers_to_every_query() -> None:
    code, found, said = bench("--events", "200000", "--pairs", "1", "--partitions", "2", limit_s=3500)
    assert code == 0, said
    assert found["agree"] is True and not found["missing_peers"]
    assert {answer["query"] for answer in found["answers"]} == {"q0", "q1", "q2", "q4", "q5", "q7", "q7max", "q8"}
    assert found["ratios"].keys() >= {"q0", "q0:kafka", "q4:checkpoints", "q7max:checkpoints", "q8"}


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_peers_in_python_give_the_same_answer() -> None:
    peers = {"bytewax", "bytewax-windows", "pathway"}
    more = ("--engines", ",".join(["holon", *sorted(peers)]), "--queries", "q7max,q2", "--partitions", "2")
    code, found, said = bench("--events", "200000", "--pairs", "1", *more, limit_s=3500)
    assert code == 0, said
    assert found["agree"] is True and not found["missing_peers"] and found["ratios_over"].keys() == peers
    rows = {(row["engine"], row["query"]) for row in found["rows"]}
    assert rows == {(peer, "q7max") for peer in peers} | {("holon", "q7max"), ("holon", "q2")}


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_flink_survives_a_killed_task_manager_beside_holon() -> None:
    line = [sys.executable, "-m", "nodes.cli", "nexmark", "failover", "--engines", "holon,flink", "--json"]
    more = ["--flink", "tuned:spare", "--nodes", "2", "--partitions", "2", "--rate", "500", "--window", "500"]
    done = subprocess.run(
        [*line, *more, "--seconds", "20", *PATIENT],
        cwd=ROOT, capture_output=True, text=True, timeout=3500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    holon, flink = json.loads(done.stdout)["rows"]
    assert (holon["engine"], flink["engine"], flink["profile"]) == ("holon", "flink", "tuned:spare")
    assert flink["differences"] == 0 and flink["unfinished"] == 0 and flink["longest_delay_ms"] > 0
