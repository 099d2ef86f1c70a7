"""The fixed costs of a run: `holon run` over 50 records on the embedded log, again and again.

    python deploy/small_runs.py [--checkout FOLDER]... [--nodes 1] [--rounds 5]

Each checkout runs with its own ``.venv``, in turn. A line has medians in seconds: the account's ``wall_s``, from the
command's first own line to its account; the whole process; and the CPU time of command and nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
JOB = "examples.top_items:job"
RECORDS = 50


def _holon(checkout: Path, *words: str) -> str:
    command = [str(checkout / ".venv/bin/python"), "-m", "nodes.cli", *words]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True).stdout


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(checkout: Path, nodes: int) -> tuple[float, float, float]:
    """``wall_s`` of the account, seconds of the process, and of CPU."""
    with tempfile.TemporaryDirectory(prefix="small-runs-") as folder:
        log = ["--log-dir", f"{folder}/log"]
        items = Path(folder, "items.jsonl")
        lines = (checkout / "examples/items.jsonl").read_text().splitlines(keepends=True)
        items.write_text("".join(lines[:RECORDS]))
        _holon(checkout, "log", "append", str(items), "--topic", "sales", "--create", *log)
        cpu_s, began_s = _cpu_s(), time.monotonic()
        told = _holon(checkout, "run", JOB, "--bounded", "--nodes", str(nodes), "--no-view", "--json", *log)
        return json.loads(told.splitlines()[-1])["wall_s"], time.monotonic() - began_s, _cpu_s() - cpu_s


def main() -> None:
    """Print a line for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, action="append")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    checkouts = [each.resolve() for each in arguments.checkout or [HERE]]
    found: dict[Path, list[tuple[float, float, float]]] = {each: [] for each in checkouts}
    for _ in range(arguments.rounds):
        for checkout in checkouts:
            found[checkout].append(measured(checkout, arguments.nodes))
    load = os.getloadavg()[0]
    for number, runs in enumerate(found.values()):
        wall_s, process_s, cpu_s = (statistics.median(each) for each in zip(*runs, strict=True))
        print(f"checkout {number}: wall_s {wall_s:.2f}, process {process_s:.2f}, CPU {cpu_s:.2f}; load {load:.1f}")


if __name__ == "__main__":
    main()
