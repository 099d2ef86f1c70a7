"""`holon bench` at real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nodes.cli", "bench", *arguments]


@pytest.mark.long
def test_a_job_by_columns_by_record_and_as_a_flow_gives_one_row_whose_answers_agree() -> None:
    done = subprocess.run(
        command(
            "deploy.bench.ordinary", "--jobs", "orders", "--engines", "holon,holon-records,holon-flow",
            "--events", "2000", "--pairs", "1", "--json",
        ),
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    assert row["job"] == "orders" and row["agree"] is True and row["events"] == 2000
    assert set(row["engines"]) == {"holon", "holon-records", "holon-flow"}
    assert all(engine["events_per_cpu_s"] > 0 for engine in row["engines"].values())


@pytest.mark.long
def test_a_job_of_a_user_runs_on_lines_of_a_file_and_an_engine_without_its_code_is_named(tmp_path: Path) -> None:
    data = tmp_path / "items.jsonl"
    data.write_text("".join(json.dumps({"ts": n, "item": f"i{n % 3}", "quantity": 1}) + "\n" for n in range(300)))
    options = ("examples.top_items:job", "--data", str(data), "--pairs", "1", "--json")
    done = subprocess.run(
        command(*options, "--engines", "holon,holon-records"),
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    assert row["answers"] == {"holon": 3} and row["agree"] is None
    assert "no job by_record" in row["missing"]["holon-records"]


def test_an_interrupted_comparison_leaves_no_process(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with open(tmp_path / "err", "wb") as errors:
        running = subprocess.Popen(
            command("deploy.bench.ordinary", "--jobs", "gps", "--events", "50000", "--pairs", "1000"),
            cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    process = psutil.Process(running.pid)
    deadline_s = time.monotonic() + 120
    while not (children := process.children(recursive=True)):
        assert running.poll() is None and time.monotonic() < deadline_s, (tmp_path / "err").read_text()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert running.wait(120) == 130
    gone, alive = psutil.wait_procs(children, timeout=60)
    assert gone and not alive
    assert not list(tmp_path.glob("holon-bench-*"))
