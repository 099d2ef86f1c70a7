"""Figures of jobs as they are written first: events a CPU-second by ``holon profile``, and the reason why one is slow.

    python deploy/bench/flows/first_figures.py [--only NAME] [--rounds 3] [--cpu 1] [--flows]

Each round is a process on one core. The table has the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from deploy.bench.flows.first_records import DRAWN, write  # noqa: E402

JOBS = {name: name for name in DRAWN} | {"access_by_split": "access"}
"""Of each job the records that it reads."""
FLOWS = dict.fromkeys(("dicts", "tuples", "added", "counted", "members", "returned", "left"), "orders")
"""The same of those that are flows alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*JOBS, *FLOWS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--flows", action="store_true", help="the same as flows, of those that have one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        records = JOBS | FLOWS
        for name in options.only or (_flows() if options.flows else JOBS):
            data = Path(folder, f"{records[name]}.jsonl")
            if not data.exists():
                write(records[name], data)
            found = [profiled(name, data, options) for _ in range(options.rounds)]
            us = statistics.median(one["us_per_event"] for one in found)
            why = next(iter(reasons(name, found[0], options.flows)), "followed")
            print(f"{name:16} {1e6 / us:>11,.0f} {us:>8.2f} us  {why}", flush=True)


def _flows() -> list[str]:
    """The names of all that are flows."""
    from deploy.bench.flows import first_flows

    return [name for name in (*JOBS, *FLOWS) if hasattr(first_flows, name)]


def reasons(name: str, profile: dict[str, Any], is_flow: bool) -> list[str]:
    """Why the function of a job, or of a flow's step, is called for each record."""
    if not is_flow:
        return [one["reason"] for one in profile["process"] if one["reason"]]
    command = [sys.executable, "-m", "nodes.cli", "explain", f"deploy.bench.flows.first_flows:{name}", "--json"]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    return [step["how"] for step in shown["steps"] if step["how"].startswith("row by row")]


def profiled(name: str, data: Path, options: Any) -> dict[str, Any]:
    """The profile of one process."""
    module = "first_flows" if options.flows else "first_jobs"
    pinned = ["taskset", "-c", str(options.cpu)]
    command = ["-m", "nodes.cli", "profile", f"deploy.bench.flows.{module}:{name}", "--data", str(data)]
    run = [*pinned, sys.executable, *command, "--seconds", "1", "--json"]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True, cwd=ROOT).stdout)


if __name__ == "__main__":
    main()
