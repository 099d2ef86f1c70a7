"""How long results stay away after `kill -9` of one of three nodes, at a steady rate of input.

    .venv/bin/python deploy/bench/takeover.py [--rate 10000] [--seconds 20] [--runs 3]

Each run is `holon nexmark run q0` (a result for every bid, so that a gap cannot hide between windows) with one kill in
the middle, on the embedded log. The figure is `longest_delay_ms` of the command's JSON: the longest gap between
results that contains the kill, beyond the longest gap of the same run that contains none. Every run is proven by the
plain oracle.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    delays, latencies = [], []
    for number in range(options.runs):
        command = [sys.executable, "-m", "nodes.cli", "nexmark", "run", "q0", "--rate", str(options.rate), "--seconds",
                   str(options.seconds), "--nodes", "3", "--partitions", "6", "--kill", "1@0.5", "--seed", str(number),
                   "--validate", "plain", "--json"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        result = json.loads(done.stdout)
        if done.returncode != 0:
            raise SystemExit(f"run {number} failed: {result}\n{done.stderr}")
        delays.append(result["longest_delay_ms"])
        latencies.append(result["latency_ms"])
        print(f"run {number}: longest delay {delays[-1]:.0f} ms, latency {result['latency_ms']}")
    print(f"longest delay after kill -9: median {statistics.median(delays):.0f} ms, max {max(delays):.0f} ms")
    print(f"latency p50, median of the runs: {statistics.median(row['p50'] for row in latencies):.1f} ms")


if __name__ == "__main__":
    main()
