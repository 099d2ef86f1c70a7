"""The cost of idle nodes: CPU of two nodes of a transactional job and of two of a stream job.

    .venv/bin/python deploy/bench/idle.py [--seconds 30] [--logs embedded,kafka] [--settle 10]

Each job gets a little to do first (a call that is answered; 100 records in four partitions). After ``--settle`` seconds
without input the CPU time of the node processes is counted. The broker's is given beside it. ``rest`` is what
everything else on the machine took, in cores. Writes idle.json and idle.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from nexmark.pictures import write_files
from nexmark.processor_time import busy_s, cpu_s
from nodes.api import passing_broker

HOLON = [sys.executable, "-m", "nodes.cli"]
JOBS = {
    "transactions": ["txn", "run", "examples.bank:program", "--nodes", "2"],
    "stream": ["run", "examples.query1:job", "--nodes", "2", "--no-view"],
}
ALONE_S = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--settle", type=float, default=10.0)
    parser.add_argument("--logs", default="embedded,kafka")
    parser.add_argument("--out", type=Path, default=Path("runs/idle"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [row for log in options.logs.split(",") for row in of_log(log, options.settle, options.seconds)]
    text = "| job | log | a node, % of a core | broker, % of a core | rest, cores |\n|---|---|---|---|---|\n"
    for row in rows:
        nodes, broker = " / ".join(f"{each:.1f}" for each in row["node_percent"]), row["broker_percent"]
        text += f"| {row['job']} | {row['log']} | {nodes} | {broker:.1f} | {row['rest_cores']:.2f} |\n"
    for path in write_files(options.out, "idle", {"rows": rows, "load": os.getloadavg()[0]}, text):
        print(path)
    print(text, end="")


def of_log(log: str, settle_s: float, seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if log == "embedded":
            return [_row(job, log, ["--log-dir", str(folder / job)], None, settle_s, seconds) for job in JOBS]
        with passing_broker(folder / "kafka") as broker:
            where = ["--log", "kafka", "--bootstrap", broker.bootstrap, "-D", f"checkpoints.url={folder / 'saved'}"]
            return [_row(job, log, where, broker.pid, settle_s, seconds) for job in JOBS]


def _row(job: str, log: str, where: list[str], broker: int | None, settle_s: float, seconds: float) -> dict[str, Any]:
    if job == "stream":
        lines = "".join(json.dumps({"ts": number}) + "\n" for number in range(100))
        append = [*HOLON, "log", "append", "-", "--topic", "bids", "--create", "--partitions", "4", *where]
        subprocess.run(append, input=lines, text=True, check=True, stdout=subprocess.DEVNULL)
    parent = subprocess.Popen([*HOLON, *JOBS[job], *where])
    try:
        nodes = _ready(job, parent, where)
        time.sleep(settle_s)
        before, all_before, broker_before = [_cpu(pid) for pid in nodes], busy_s(), _cpu(broker)
        began = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        took = [_cpu(pid) - was for pid, was in zip(nodes, before, strict=True)]
        took_broker = _cpu(broker) - broker_before
        rest = (busy_s() - all_before - sum(took) - took_broker) / passed
    finally:
        parent.terminate()
        parent.wait(ALONE_S)
    row = {"job": job, "log": log, "node_percent": [100 * each / passed for each in took]}
    return row | {"broker_percent": 100 * took_broker / passed, "rest_cores": rest, "seconds": passed}


def _ready(job: str, parent: subprocess.Popen[bytes], where: list[str]) -> list[int]:
    """The node processes, once the job has done something."""
    if job == "transactions":
        call = [*HOLON, "txn", "call", "account", "alice", "deposit", "[1]", *where, "--json"]
        while subprocess.run(call, capture_output=True, check=False, timeout=ALONE_S).returncode != 0:
            if parent.poll() is not None:
                raise SystemExit(f"{job}: the nodes have ended; their output is above")
    until = time.monotonic() + ALONE_S
    while time.monotonic() < until and parent.poll() is None:
        nodes = [each.pid for each in psutil.Process(parent.pid).children() if "node" in each.cmdline()]
        if len(nodes) == 2:
            return nodes
        time.sleep(0.1)
    raise SystemExit(f"{job}: the nodes did not start; their output is above")


def _cpu(pid: int | None) -> float:
    found = None if pid is None else cpu_s(pid)
    if pid is not None and found is None:
        raise SystemExit(f"process {pid} has ended while nothing was to be done")
    return found or 0.0


if __name__ == "__main__":
    main()
