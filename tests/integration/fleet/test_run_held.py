"""`holon run` of a job of which nothing comes out, because one partition of its input is empty."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from tests.integration.fleet_support import Stage, run_command
from tests.integration.jobs_mixed import INPUT, Event

JOB = "tests.integration.jobs_odd:guarded"
START_MS = 1_750_000_000_000


@pytest.mark.long
def test_an_empty_partition_is_named_in_lines_log_and_account(tmp_path: Path) -> None:
    stage = Stage(tmp_path, partitions=2)
    rows = [msgspec.json.encode(Event(ts=START_MS + 1000 * n, id=n, amount=0)) for n in range(5)]
    stage.log.append(INPUT, 0, rows)
    with run_command(stage, "--nodes", "1", job=JOB) as command:
        command.says("partition 1 (no event time yet) holds the frontier; a silent partition holds all windows open")
        command.says("lag 0 records, frontier -, 1 nodes, 0 steals; no window was completed for")
        command.signal(signal.SIGTERM)
        result = command.json()
    held = result["frontier_held"]
    assert held["partitions"] == [{"partition": 1, "watermark_ms": None, "offset": 0, "lag": 0}]
    assert held["held_ms"] >= 5_000 and held["since_ms"] > START_MS and held["idle_timeout_ms"] is None
    assert result["outputs"] == 0
    with run_command(stage, "--nodes", "1", "--bounded", job=JOB) as command:
        result = command.json()
    assert result["frontier_held"] is None and result["outputs"] == 5
    stage.log.close()
