"""Migrations of state under load: `holon txn bench --repartition` on YCSB-M and TPC-C, as section 9.5 of Styx has them.

    .venv/bin/python deploy/bench/txn_migration.py [--log embedded|kafka] [--records 20000] [--warehouses 4]
        [--scale 0.01] [--partitions 8,6] [--nodes 2] [--rate 300] [--tpcc-rate 60] [--seconds 20] [--spread all|least]
        [--modes online,stop] [--workloads ycsb-m,tpcc] [--rounds 1] [--out DIR]

Workloads, each from the first number of partitions to the second and back, by each mode in turn, at three tenths of the
replies. Shown are the longest silence, the worst second, and p99 before, during and after: medians of the rounds. The
defaults are for a small machine. For the issue's figures:

    --records 1000000 --warehouses 10 --scale 1 --partitions 16,12 --nodes 4 --rate 2000 --tpcc-rate 300 --seconds 60
    --rounds 3

YCSB-M begins with checkpoints; TPC-C is loaded by requests. The number of nodes stays; moving.py measures nodes that
join and leave. On Kafka a broker of this machine is used, started if it does not run. Exit 1 where an invariant is
broken. Writes txn_migration.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from nexmark.bench.machine import machine
from nexmark.pictures import write_files

AT = 0.3
MOST_LOAD_A_CORE = 0.5
HEAD = ("workload", "mode", "partitions", "keys", "MB", "took, s", "downtime, ms", "epochs stopped, ms",
        "worst second, %", "p99 before, ms", "p99 during, ms", "p99 after, ms", "MB/s", "load")  # fmt: skip
TARGETS = (
    "Targets of mode online: a tenth of the downtime of stop. p99 during: twice that before. Worst second: 80 %. "
    "Copying without other load: 50 MB/s."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", choices=("embedded", "kafka"), default="embedded")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--partitions", default="8,6", help="from the first to the second, and back")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--tpcc-rate", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--spread", choices=("all", "least"), default="all")
    parser.add_argument("--modes", default="online,stop")
    parser.add_argument("--workloads", default="ycsb-m,tpcc")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/txn-migration"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for name, arguments in points(options):
            runs.setdefault(name, []).append(measured(arguments))
            print(name, shown(runs[name][-1]), flush=True)
    rows = [(name, medians([shown(run) for run in found])) for name, found in runs.items()]
    text = markdown(rows, options.log, options.rounds)
    found = {"runs": runs, "log": options.log, "machine": machine()}
    write_files(options.out, "txn_migration", found, text)
    print(text)


def points(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Each migration: its name, and the arguments of the bench."""
    first, second = map(int, options.partitions.split(","))
    common = ["--log", options.log, "--nodes", str(options.nodes), "--seconds", str(options.seconds)]
    common += ["--spread", options.spread]
    workloads = {
        "ycsb-m": ["--size", str(options.records), "--rate", str(options.rate)],
        "tpcc": ["--size", str(options.warehouses), "--scale", str(options.scale), "--rate", str(options.tpcc_rate)],
    }
    for workload in options.workloads.split(","):
        for before, after in ((first, second), (second, first)):
            for mode in options.modes.split(","):
                ways = ["--partitions", str(before), "--repartition", f"all:{after}@{AT}", "--mode", mode]
                yield f"{workload} {mode} {before} to {after}", [workload, *workloads[workload], *common, *ways]


def measured(arguments: Sequence[str]) -> dict[str, Any]:
    """One run. Raises ``RuntimeError`` where it fails, or breaks the workload's invariants."""
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "nodes.cli", "txn", "bench", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return {"load": round(load, 1), **json.loads(done.stdout)}


def shown(run: dict[str, Any]) -> list[float | None]:
    """The figures of the one migration of a run, in the order of the table; None: not known."""
    (migration,) = run["migrations"]
    size, share = migration["bytes"], migration["least_share"]
    megabytes = None if size is None else size / 1e6
    p99s = [None if run[phase] is None else run[phase]["p99"] for phase in ("before", "during", "after")]
    stopped_ms = migration["epochs_stopped_ms"]
    moving_s = migration["took_s"] if migration["mode"] == "online" else (stopped_ms or 0) / 1000
    copied = None if megabytes is None or not moving_s else megabytes / moving_s
    times = [migration["took_s"], migration["downtime_ms"], stopped_ms]
    return [migration["keys"], megabytes, *times, None if share is None else 100 * share, *p99s, copied, run["load"]]


def medians(runs: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Of each figure, over the runs that know it."""
    known = [[each for each in figures if each is not None] for figures in zip(*runs, strict=True)]
    return [median(each) if each else None for each in known]


def markdown(rows: Sequence[tuple[str, Sequence[float | None]]], log: str, rounds: int) -> str:
    """The table, and a warning where the machine had other work."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for name, figures in rows:
        lines.append(f"| {' | '.join([*name.split(' ', 2), *map(_cell, figures)])} |")
    lines += ["", f"Log {log}, medians of {rounds}. {TARGETS}"]
    most = max((figures[-1] or 0.0 for _, figures in rows), default=0.0)
    if most > MOST_LOAD_A_CORE * (os.cpu_count() or 1):
        lines += [
            "",
            f"**On a busy machine** (load average up to {most:g} before a run): times say little of Holon.",
        ]
    return "\n".join(lines) + "\n"


def _cell(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:,.1f}"


if __name__ == "__main__":
    main()
