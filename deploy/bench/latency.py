"""Latency of windowed results on Kafka at four rates: a JSON file, a Markdown table, a picture for each.

    .venv/bin/python deploy/bench/latency.py [--out runs/latency] [--rates 2000,5000,10000,20000] [--seconds 60]

Each row is one `holon nexmark latency` with a broker of its own, about 140 s. `--replicas 1,2` measures standbys too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLUMNS = ("avg", "p50", "p90", "p99", "max")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/latency"))
    parser.add_argument("--rates", default="2000,5000,10000,20000")
    parser.add_argument("--replicas", default="1")
    parser.add_argument("--seconds", default="60")
    parser.add_argument("--nodes", default="3")
    parser.add_argument("--query", default="q7max")
    parser.add_argument("--warmup", default="60", help="seconds; a broker that was just started compiles itself")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for replicas in options.replicas.split(","):
        for rate in options.rates.split(","):
            plot = options.out / f"{options.query}-{rate}-{replicas}.svg"
            rows.append(
                holon(
                    "latency", options.query, "--rate", rate, "--seconds", options.seconds, "--nodes", options.nodes,
                    "--replicas", replicas, "--warmup", options.warmup, "--plot", str(plot),
                )
            )  # fmt: skip
            (options.out / "latency.json").write_text(json.dumps(rows, indent=1) + "\n")
    table = markdown(rows)
    (options.out / "latency.md").write_text(table)
    print(table)


def holon(*arguments: str) -> dict[str, Any]:
    """One command; raises if it fails, a wrong result included."""
    # Where bytecode must not be written, every node compiles all modules again while it starts.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    line = [sys.executable, "-m", "nodes.cli", "nexmark", *arguments, "--json"]
    print(" ".join(["holon", *line[3:]]), file=sys.stderr, flush=True)
    done = subprocess.run(line, stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/performance.md."""
    lines = [
        "| events/s | replicas | results | avg ms | p50 | p90 | p99 | max | differences | duplicates | "
        "cores: nodes, producer, broker, others |",
        "|" + "---|" * 11,
    ]
    for row in rows:
        found, load = row["latency_ms"], row["load_cores"]
        figures = " | ".join(f"{found[name]:.1f}" for name in COLUMNS)
        cores = ", ".join(str(load[name]) for name in ("nodes", "feed", "broker", "others"))
        lines.append(
            f"| {row['rate']:,} | {row['replicas']} | {row['results']} | {figures} | {row['differences']} | "
            f"{row['repeats_dropped']} | {cores} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
