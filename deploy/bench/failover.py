"""Latency under failures on Kafka: one node of three, and the three scenarios of the paper on five nodes.

    .venv/bin/python deploy/bench/failover.py [--out runs/failover] [--seconds 40] [--rate 2000]

Each row is one `holon nexmark failover`: a run without failures and one with, about two and a half minutes. By default
one node of three with 1 and 2 replicas, and concurrent, subsequent and crash on five with 1 and 3.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.bench.latency import holon

MATRIX = "single:1,single:2,concurrent:1,concurrent:3,subsequent:1,subsequent:3,crash:1,crash:3"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/failover"))
    parser.add_argument("--matrix", default=MATRIX, help="SCENARIO:REPLICAS, separated by commas")
    parser.add_argument("--seconds", default="40")
    parser.add_argument("--rate", default="2000")
    parser.add_argument("--query", default="q7max")
    parser.add_argument("--warmup", default="20", help="seconds; a broker that was just started compiles itself")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for entry in options.matrix.split(","):
        scenario, replicas = entry.split(":")
        plot = options.out / f"{options.query}-{scenario}-{replicas}.svg"
        found = holon(
            "failover", options.query, "--scenario", scenario, "--replicas", replicas, "--seconds", options.seconds,
            "--rate", options.rate, "--warmup", options.warmup, "--plot", str(plot),
        )  # fmt: skip
        rows += found["rows"]
        (options.out / "failover.json").write_text(json.dumps(rows, indent=1) + "\n")
    table = markdown(rows)
    (options.out / "failover.md").write_text(table)
    print(table)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/performance.md."""
    lines = [
        "| scenario | nodes | replicas | longest delay ms | recovered after ms | p99 over the run ms | avg ms | "
        "avg without failures ms | sensitivity ms*s | differences | duplicates |",
        "|" + "---|" * 11,
    ]
    for row in rows:
        found, healthy = row["latency_ms"], row["baseline_ms"]
        lines.append(
            f"| {row['scenario']} | {row['nodes']} | {row['replicas']} | {row['longest_delay_ms']:.0f} | "
            f"{row['recovered_ms']:.0f} | {found['p99']:.1f} | {found['avg']:.1f} | {healthy['avg']:.1f} | "
            f"{row['sensitivity']:.1f} | {row['differences']} | {row['repeats_dropped']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
