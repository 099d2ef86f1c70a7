"""Every transactional workload with a node killed in the middle: do its invariants hold, and how long is it silent?

    .venv/bin/python deploy/bench/transactions/kills.py [--quick] [--logs embedded,kafka] [--workloads a,b] [--out DIR]

A run of `holon txn bench WORKLOAD --kill 0@0.4` each, at a steady rate: the silence is the time without any reply. On
Kafka a broker of this machine is used, started if it does not run. Exit 1 where an invariant is broken.
About 5 s a run with `--quick`, 15 s without. Writes txn_kills.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from nexmark.bench.machine import machine
from nexmark.pictures import write_files
from transactional.workloads.catalogue import WORKLOADS

RATE = 200
MOST_ENTITIES = 10_000
"""A workload of a million records has fewer here: their last reading would take longer than the run."""
HEAD = ("log", "workload", "transactions", "invariants", "aborted by rule", "run again", "duplicates dropped",
        "silence, ms", "p50, ms", "p99, ms", "load before")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--logs", default="embedded,kafka")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--out", type=Path, default=Path("runs/txn-kills"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for log in options.logs.split(","):
        for workload in options.workloads.split(","):
            rows.append(measured(log, workload, 3 if options.quick else 10))
            print(line(rows[-1]), flush=True)
    text = "\n".join([f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", *map(line, rows)]) + "\n"
    write_files(options.out, "txn_kills", {"rows": rows, "machine": machine()}, text)
    print(text)
    if not all(row["ok"] for row in rows):
        sys.exit("an invariant was broken, or a run has failed: see txn_kills.json")


def measured(log: str, workload: str, seconds: int) -> dict[str, Any]:
    """One run. The output of a failed run is kept."""
    load = round(os.getloadavg()[0], 1)
    command = [sys.executable, "-m", "nodes.cli", "txn", "bench", workload, "--log", log, "--zipf", "0.5", "--json"]
    command += ["--size", str(min(WORKLOADS[workload].size, MOST_ENTITIES))]
    command += ["--rate", str(RATE), "--seconds", str(seconds), "--kill", "0@0.4", "--warmup", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout) if done.stdout else {"invariants": False}
    report = {} if done.returncode == 0 else {"said": done.stderr}
    return {**found, "log": log, "workload": workload, "load": load, "ok": done.returncode == 0, **report}


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    names = ("transactions", "invariants", "user_aborted", "reruns", "repeats_dropped", "longest_silence_ms")
    latency = row.get("latency_ms", {})
    figures = [*(row.get(name, "failed") for name in names), latency.get("p50"), latency.get("p99"), row["load"]]
    shown = [f"{each:,.0f}" if isinstance(each, float) else str(each) for each in figures]
    return f"| {' | '.join([row['log'], row['workload'], *shown])} |"


if __name__ == "__main__":
    main()
