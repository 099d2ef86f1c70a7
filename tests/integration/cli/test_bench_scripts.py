"""The scripts of deploy/bench that run node processes or measure turns: they end, and their rows add up."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy import ready_batches
from deploy.bench.transactions import scale as txn_scale
from nexmark.bench.answers import chunks
from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream
from nodes.log import LogAddress, open_log
from tests.integration.kafka_broker import session_bootstrap
from tests.tidy.source import ROOT


def script(name: str, out: Path, *arguments: str) -> dict[str, Any]:
    """Run one with its output there; its JSON."""
    line = [sys.executable, str(ROOT / "deploy" / "bench" / f"{name}.py"), *arguments, "--out", str(out)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=250, check=False, cwd=out)
    assert done.returncode == 0, f"{name} has failed:\n{done.stdout}\n{done.stderr}"
    return json.loads((out / f"{name}.json").read_text())


@pytest.mark.long
def test_scale_measures_a_fleet_with_costs_that_were_measured_before(tmp_path: Path) -> None:
    costs = tmp_path / "given.json"
    costs.write_text(json.dumps({"costs_us": {"turns": 60, "runners": 20, "deltas_in": 50, "events": 1}}))
    sizes = ("--sizes", "4:8", "--seconds", "1.5", "--costs", str(costs))
    rows = script("scale", tmp_path, *sizes)["rows"]
    assert [row["wrong"] for row in rows] == [0] and rows[0]["windows"]
    assert (tmp_path / "scale.svg").exists() and len((tmp_path / "scale.md").read_text().splitlines()) == 3


@pytest.mark.long
def test_ramp_climbs_until_its_events_are_used_up(tmp_path: Path) -> None:
    more = ("--bootstrap", session_bootstrap(), "--start", "20000", "--factor", "2", "--broker-warmup", "0")
    arguments = ("--queries", "q7", "--nodes", "1", "--events", "60000", "--partitions", "2", "--step", "1")
    (row,) = script("ramp", tmp_path, *arguments, *more)["rows"]
    rates = [step["rate"] for step in row["steps"]]
    assert rates and rates == [20_000 * 2**number for number in range(len(rates))]
    assert row["drained_s"] >= 0, "all that was sent has been taken in the end"
    assert row["ended_by"] in ("nodes", "producer", "events")
    with open_log(LogAddress(f"kafka:{session_bootstrap()}")) as log:
        assert not [topic for topic in log.topics() if topic.startswith("ramp-")], "topics are left behind"


def test_batches_that_were_ready_are_the_generators_events_in_order(tmp_path: Path) -> None:
    assert ready_batches.prepare(tmp_path, 5000, 2) == 2, "whole rounds only"
    with open_log(LogAddress(f"kafka:{session_bootstrap()}", prefix=f"ready-{secrets.token_hex(4)}.")) as log:
        log.create_topic("events", 2)
        assert [log.end_offset("events", part) for part in range(2)] == [0, 0]  # each leader has answered
        producer = ready_batches.ReadyProducer(tmp_path, session_bootstrap(), log.prefix + "events", 2)  # type: ignore[attr-defined]
        sent = producer.run(1e9, 60.0)
        producer.close()
        assert sent.rounds == 2 and producer.next_round == 2
        stream = Stream("events", 4000, 2, GeneratorConfig(seed=7))
        for part in range(2):
            assert log.end_offset("events", part) == 2000
            values = [value for chunk in chunks(log, "events", part) for value in chunk.values]
            assert values == stream.encode(part, 0, 2000)
        log.delete_topics(["events"])  # type: ignore[attr-defined]


@pytest.mark.long
def test_flatness_loses_no_event(tmp_path: Path) -> None:
    found = script("flatness", tmp_path, "--events", "200000", "--partitions", "2")
    assert found["conserved"] and [row["events"] for row in found["rows"]] == [200_000]
    assert found["rows"][0]["us_per_event"] > 0 and found["rows"][0]["own_mb"] > 1


def test_stages_add_up_to_what_the_node_used(tmp_path: Path) -> None:
    (row,) = script("stages", tmp_path, "--queries", "q7", "--events", "100000", "--partitions", "2")["rows"]
    told_s = sum(row["stages"].values()) * row["events"] / 1e6
    assert abs(told_s - row["cpu_s"]) < 0.01 * row["cpu_s"] + 0.01
    assert row["least"]["read"] > 0 and (tmp_path / "q7.svg").read_text().startswith("<svg")


def test_transfers_on_simulated_nodes_leave_every_balance_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_scale, "ACCOUNTS", 200)
    row = txn_scale.measured(2, 200, [500.0], 0.2, 1.0)
    (paced,) = row["rates"]
    assert row["wrong"] == 0 and row["per_s"] > 0 and paced["p50_ms"] > 1.0 and paced["epochs_per_s"] > 0
