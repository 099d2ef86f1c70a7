"""How long results stay away after `kill -9` of one of three nodes, at a steady rate of input.

    .venv/bin/python deploy/bench/takeover.py [--rate 10000] [--seconds 20] [--runs 3] [--replicas 1 2] [--healthy]

Each run is `holon nexmark run q0` (a result for every bid, so that a gap cannot hide between windows) with one kill in
the middle, on the embedded log. With --healthy there is none, and the number of results that were written twice counts.
The delay is `longest_delay_ms` of the command's JSON: the longest gap between results that contains the kill, beyond
the longest gap of the same run that contains none. Every run is proven by the plain oracle.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--standby-after-ms", type=int, default=30)
    parser.add_argument("--healthy", action="store_true")
    options = parser.parse_args()
    for replicas in options.replicas:
        rows = [_run(options, replicas, number) for number in range(options.runs)]
        p50 = statistics.median(row["latency_ms"]["p50"] for row in rows)
        p99 = statistics.median(row["latency_ms"]["p99"] for row in rows)
        print(f"{replicas} replicas: latency p50 {p50:.1f} ms, p99 {p99:.1f} ms (medians of the runs)")
        print(f"{replicas} replicas: results written again, of all: {_share(rows):.3%}")
        if not options.healthy:
            delays = [row["longest_delay_ms"] for row in rows]
            median, longest = statistics.median(delays), max(delays)
            print(f"{replicas} replicas: longest delay after kill -9: median {median:.0f} ms, max {longest:.0f} ms")


def _run(options: argparse.Namespace, replicas: int, number: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "nodes.cli", "nexmark", "run", "q0", "--rate", str(options.rate), "--seconds",
               str(options.seconds), "--nodes", "3", "--partitions", "6", "--seed", str(number), "--replicas",
               str(replicas), "-D", f"node.standby_after_ms={options.standby_after_ms}", "--validate", "plain",
               "--json"]  # fmt: skip
    command += [] if options.healthy else ["--kill", "1@0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    if done.returncode != 0:
        raise SystemExit(f"run {number} failed: {result}\n{done.stderr}")
    load = os.getloadavg()[0]
    print(
        f"{replicas} replicas, run {number}: longest delay {result['longest_delay_ms']}, "
        f"latency {result['latency_ms']}, "
        f"{result['repeats_dropped']} of {result['outputs']} written again; load {load:.1f}"
    )
    return result


def _share(rows: list[dict[str, Any]]) -> float:
    return sum(row["repeats_dropped"] for row in rows) / sum(row["outputs"] for row in rows)


if __name__ == "__main__":
    main()
