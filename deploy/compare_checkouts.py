"""Compares two checkouts by whole commands that run in turn: throughput, latency, failures, transactions, memory.

    python deploy/compare_checkouts.py BEFORE AFTER [--rounds 3] [--only NAME]... [--quick] [--events N] [--json]
    python deploy/compare_checkouts.py --list

Each checkout runs with its own ``.venv``. Each row has the medians of both and their ratio; ``better`` is the direction
of an improvement. ``load`` is the machine's load when a row began: a busy machine makes figures of
time worthless, those of processor time less so. Exit code 1 if a command fails in either checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 900.0
TINY = "--events 2000 --nodes 3 --validate plain"
FULL = {"events": "2000000", "seconds": "20", "burst": "40000", "pace": "10"}
QUICK = {"events": "400000", "seconds": "5", "burst": "5000", "pace": "5"}


@dataclass(frozen=True, slots=True)
class Figure:
    """``path``: keys of the command's JSON, or ``cpu_s``, ``wall_s`` of the command itself with its children."""

    name: str
    path: tuple[str | int, ...]
    better: str = "less"


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """One command of ``holon`` and what is taken of its answer."""

    name: str
    command: str
    figures: tuple[Figure, ...]


def _bench(log: str) -> list[MeasuredCommand]:
    """Nexmark queries; ``bench`` knows Kafka alone, the embedded log is measured by ``run``."""
    if log == "kafka":
        return [
            MeasuredCommand(
                f"{query} on Kafka",
                f"nexmark bench --engines holon --queries {query} --events {{events}} --pairs 1 --broker-warmup 5",
                (
                    Figure("events a CPU-second", ("rows", 0, "events_per_cpu_s"), "more"),
                    Figure("memory of a node, MB", ("rows", 0, "peak_uss_mb")),
                ),
            )
            for query in ("q0", "q4", "q7max")
        ]
    return [
        MeasuredCommand(
            f"{query} on the embedded log",
            f"nexmark run {query} --api procedural --events {{events}} --nodes 2",
            (Figure("CPU of command and nodes, s", ("cpu_s",)), Figure("wall, s", ("wall_s",))),
        )
        for query in ("q0", "q4", "q7max")
    ]


def _transactions(log: str) -> list[MeasuredCommand]:
    where = f"--log {log} --nodes 2"
    return [
        MeasuredCommand(
            f"YCSB-T burst, {log}",
            f"txn bench ycsb-t --transactions {{burst}} {where}",
            (
                Figure("transactions a second", ("transactions_per_s",), "more"),
                Figure("CPU, µs a transaction", ("cpu_us_per_transaction",)),
            ),
        ),
        MeasuredCommand(
            f"YCSB-T at 2,000 a second, {log}",
            f"txn bench ycsb-t --rate 2000 --seconds {{pace}} --zipf 0.5 {where}",
            (
                Figure("p50, ms", ("latency_ms", "p50")),
                Figure("p99, ms", ("latency_ms", "p99")),
                Figure("CPU, µs a transaction", ("cpu_us_per_transaction",)),
            ),
        ),
    ]


def _failures() -> list[MeasuredCommand]:
    return [
        MeasuredCommand(
            f"kill -9 with {replicas} {'replica' if replicas == 1 else 'replicas'}, {log}",
            f"nexmark failover q7max --scenario single --log {log} --replicas {replicas} --seconds {{seconds}}",
            (Figure("longest delay, ms", ("rows", 0, "longest_delay_ms")),),
        )
        for log in ("embedded", "kafka")
        for replicas in (1, 2)
    ]


def everything() -> list[MeasuredCommand]:
    """All commands, the short ones first."""
    cost = (Figure("CPU, s", ("cpu_s",)), Figure("wall, s", ("wall_s",)))
    found = [MeasuredCommand("a run of 2,000 events on three nodes", f"nexmark run query1 {TINY}", cost)]
    found += [*_bench("embedded"), *_bench("kafka")]
    found += [
        MeasuredCommand(
            f"latency at 2,000 a second, {log}",
            f"nexmark latency q7max --log {log} --rate 2000 --seconds {{seconds}}",
            (Figure("average, ms", ("latency_ms", "avg")), Figure("p99, ms", ("latency_ms", "p99"))),
        )
        for log in ("embedded", "kafka")
    ]
    return [*found, *_failures(), *_transactions("embedded"), *_transactions("kafka")]


def run(checkout: Path, measured: MeasuredCommand, sizes: dict[str, str]) -> dict[str, float]:
    """Its figures, by name. Raises ``RuntimeError`` with the command's last words where it fails."""
    command = [str(checkout / ".venv/bin/holon"), *measured.command.format(**sizes).split(), "--json"]
    with tempfile.TemporaryDirectory(prefix="compare-checkouts-") as folder:
        environment = {**os.environ, "HOLON__LOG__PATH": f"{folder}/log", "HOLON__CHECKPOINTS__URL": f"{folder}/saved"}
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began_s
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answer = {**json.loads(done.stdout.splitlines()[-1]), "cpu_s": cpu_s, "wall_s": wall_s}
    return {figure.name: _value(answer, figure.path) for figure in measured.figures}


def _value(answer: Any, path: tuple[str | int, ...]) -> float:
    for key in path:
        answer = answer[key]
    return float(answer)


def compare(
    before: Path, after: Path, measured: MeasuredCommand, rounds: int, sizes: dict[str, str]
) -> list[dict[str, Any]]:
    """A row for each figure. Whichever comes first in a round comes second in the next one."""
    load = os.getloadavg()[0]
    found: dict[Path, list[dict[str, float]]] = {before: [], after: []}
    for number in range(rounds):
        for checkout in (before, after) if number % 2 == 0 else (after, before):
            found[checkout].append(run(checkout, measured, sizes))
    rows = []
    for figure in measured.figures:
        old, new = (statistics.median(each[figure.name] for each in found[place]) for place in (before, after))
        row = {"what": measured.name, "figure": figure.name, "before": old, "after": new, "better": figure.better}
        rows.append({**row, "ratio": new / old if old else None, "load": round(load, 1)})
    return rows


def main() -> int:
    """Print a row for each figure; 1 if a command fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], help="rows whose name contains this (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all commands work")
    parser.add_argument("--events", type=int, help="of Nexmark's runs; few of them measure the start of nodes")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [m for m in everything() if not options.only or any(part in m.name for part in options.only)]
    if options.list:
        print("\n".join(f"{measured.name}: holon {measured.command}" for measured in chosen))
        return 0
    if options.before is None or options.after is None:
        parser.error("name two checkouts, each with a .venv (make setup)")
    failed, sizes = False, {**(QUICK if options.quick else FULL)}
    if options.events:
        sizes["events"] = str(options.events)
    before, after = options.before.resolve(), options.after.resolve()
    for measured in chosen:
        try:
            rows = compare(before, after, measured, options.rounds, sizes)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed = True
            print(f"{measured.name}: {error}", file=sys.stderr, flush=True)
            continue
        for row in rows:
            print(json.dumps(row) if options.json else _text(row), flush=True)
    return int(failed)


def _text(row: dict[str, Any]) -> str:
    ratio = "" if row["ratio"] is None else f"  x{row['ratio']:.2f} ({row['better']} is better)"
    return f"{row['what']}: {row['figure']} {row['before']:,.2f} -> {row['after']:,.2f}{ratio}  load {row['load']}"


if __name__ == "__main__":
    sys.exit(main())
