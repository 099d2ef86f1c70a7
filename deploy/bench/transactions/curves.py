"""Transactions as curves: latency and throughput by rate, Zipf, warehouses, share of partitions, depth, nodes.

    .venv/bin/python deploy/bench/transactions/curves.py [--quick] [--log embedded|kafka] [--only zipf,depth]
        [--out runs/txn]

Each point is a run of `holon txn bench` on a log of its own, whose invariants must hold. `breakdown` samples a node
process (nodes/profiling/sampling.py) and reads its log: CPU time by function, messages and state (Styx, Table 3),
messages a transaction, and what compression of large records saves. `caching` counts what a cache of call graphs could
save. About 30 points of 5 to 9 s with `--quick`; without, longer runs and up to 100 warehouses: 25 minutes. With
`--only` and `--add` it can be run in pieces: what the folder's file has of other curves stays.
Writes txn_curves.json, .md and .svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deploy.transaction_caching import caching
from deploy.transaction_costs import breakdown
from nexmark.bench.machine import machine
from nexmark.pictures import picture, write_files
from nodes.cli.txn.bench import KAFKA_WARMUP_S

COLUMNS = ("transactions_per_s", "p50", "p99", "max", "log p50", "log p99", "cpu_us_per_transaction", "rerun %")
WARM_S = 1.0
"""For nodes, which are new at each point, on a broker that is warm."""
Point = tuple[str, float | str, list[str]]
"""Curve, place on it, arguments of the bench."""


def points(quick: bool) -> Iterator[Point]:
    """All curves, each as its figure in Styx's paper has it, where there is one."""
    lasts, burst = ("4", "8000") if quick else ("20", "40000")
    transfers = ["ycsb-t", "--seconds", lasts, "--zipf", "0.5"]
    for rate in (500, 2000, 8000) if quick else (500, 1000, 2000, 4000, 8000, 12000, 16000):
        yield "rate", rate, [*transfers, "--rate", str(rate)]
    zipfs = (0.0, 0.99, 0.999) if quick else (0.0, 0.5, 0.9, 0.99, 0.999)
    for zipf in zipfs:
        yield "zipf", zipf, ["ycsb-t", "--rate", "2000", "--seconds", lasts, "--zipf", str(zipf)]
    for zipf in zipfs:
        yield "zipf, burst", zipf, ["ycsb-t", "--transactions", burst, "--zipf", str(zipf)]
    orders = "800" if quick else "5000"
    for warehouses in (1, 2, 5) if quick else (1, 2, 10, 30, 100):
        yield "tpcc: warehouses, burst", warehouses, ["tpcc", "--size", str(warehouses), "--transactions", orders]
    for rate in (200, 600, 2000) if quick else (200, 500, 1000, 2000, 4000):
        yield "tpcc: rate, 2 warehouses", rate, ["tpcc", "--rate", str(rate), "--seconds", "3" if quick else lasts]
    chain, chained = ["chain", "--rate", "1000", "--seconds", lasts], "4000" if quick else "20000"
    for share in (0.0, 0.5, 1.0) if quick else (0.0, 0.2, 0.5, 0.8, 1.0):
        yield "share over partitions, burst", share, ["chain", "--transactions", chained, "--remote", str(share)]
    for depth in (1, 4, 16) if quick else (1, 2, 4, 8, 16, 32):
        yield "depth", depth, [*chain, "--depth", str(depth)]
    for nodes in (1, 2, 3) if quick else (1, 2, 3, 4):
        yield "nodes, burst", nodes, ["ycsb-t", "--transactions", burst, "--nodes", str(nodes)]
    for name, program in (("with", "chain"), ("without", "chain-scattered")):
        local = [program, "--rate", "1000", "--seconds", lasts, "--remote", "0", "--depth", "4"]
        yield "composite keys, 4 calls", name, local
    for name, over_bytes in (("with", 4096), ("without", 0)):
        large = ["ycsb-a", "--transactions", chained, "-D", f"node.compress_bytes={over_bytes}"]
        yield "compression, records of 1 kB, burst", name, large


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--log", choices=("embedded", "kafka"), default="embedded")
    parser.add_argument("--warmup", type=float, help="seconds before each point; else 10 before the first, then 1")
    parser.add_argument("--only", default="", help="names of curves, or their beginnings")
    parser.add_argument("--add", action="store_true", help="to what txn_curves.json in --out has of other curves")
    parser.add_argument("--out", type=Path, default=Path("runs/txn"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = tuple(filter(None, options.only.split(",")))
    kept = json.loads((options.out / "txn_curves.json").read_text(encoding="utf-8")) if options.add else {"rows": []}
    rows = []
    for curve, place, arguments in points(options.quick):
        if not wanted or curve.startswith(wanted):
            warmup_s = warmup_of(options.warmup, options.log, not rows)
            rows.append(measured(curve, place, [*arguments, "--log", options.log, "--warmup", str(warmup_s)]))
            print(line(rows[-1]), flush=True)
    found = added(kept, {"rows": rows, "log": options.log, "machine": machine()}, options.quick)
    if not wanted or "breakdown".startswith(wanted):
        found["breakdown"] = breakdown(4_000 if options.quick else 20_000)
    if not wanted or "caching".startswith(wanted):
        found["caching"] = caching(1_000 if options.quick else 5_000)
    write_files(options.out, "txn_curves", found, markdown(found), lambda path: draw(path, found["rows"]))
    print(markdown(found))


def added(kept: dict[str, Any], new: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Both, curves in their order; a curve that was measured again replaces the old one."""
    fresh = {row["curve"] for row in new["rows"]}
    order = list(dict.fromkeys(curve for curve, _, _ in points(quick)))
    rows = [*(row for row in kept["rows"] if row["curve"] not in fresh), *new["rows"]]
    rows.sort(key=lambda row: order.index(row["curve"]) if row["curve"] in order else len(order))
    return {**kept, **new, "rows": rows}


def warmup_of(given_s: float | None, log: str, first: bool) -> float:
    """Seconds before a point. All points share the machine's broker, which the first one has warmed."""
    if given_s is not None:
        return given_s
    return 0.0 if log == "embedded" else KAFKA_WARMUP_S if first else WARM_S


def measured(curve: str, place: float | str, arguments: Sequence[str]) -> dict[str, Any]:
    """One point. Raises ``RuntimeError`` where the run fails, or breaks the workload's invariants."""
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "nodes.cli", "txn", "bench", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return {"curve": curve, "x": place, "load": round(load, 1), **json.loads(done.stdout)}


def shown(row: dict[str, Any]) -> list[float]:
    """The part of a point that the table and the pictures show."""
    client, log = row["latency_ms"], row["log_latency_ms"]
    figures = [client["p50"], client["p99"], client["max"], log["p50"], log["p99"], row["cpu_us_per_transaction"]]
    return [row["transactions_per_s"], *figures, 100 * row["reruns"] / row["transactions"]]


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    return f"| {row['curve']} | {row['x']} | {' | '.join(f'{each:,.0f}' for each in shown(row))} | {row['load']} |"


def markdown(found: dict[str, Any]) -> str:
    """The table, the costs of a transaction, and what a cache of call graphs could save."""
    head = ["curve", "x", *COLUMNS, "load before"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *map(line, found["rows"])]
    costs = found.get("breakdown")
    if costs is not None:
        lines += ["", "| of a transfer | |", "|---|---|"]
        lines += [f"| {name} | {value:,.2f} |" for name, value in costs.items()]
    saved = found.get("caching")
    if saved is not None:
        lines += ["", f"| {' | '.join(saved[0])} |", f"|{'---|' * len(saved[0])}"]
        lines += [f"| {' | '.join(v if isinstance(v, str) else f'{v:,.2f}' for v in row.values())} |" for row in saved]
    return "\n".join(lines) + "\n"


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A picture for each curve: throughput of bursts, else p50 and p99."""
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    with picture(path, -(-len(curves) // 2), 2, (10, 2.6 * -(-len(curves) // 2))) as (_, axes):
        for axis, curve in zip(axes, curves, strict=False):
            mine = [row for row in rows if row["curve"] == curve]
            places = [str(row["x"]) for row in mine]
            if "burst" in curve:
                lines = {"transactions a second": [row["transactions_per_s"] for row in mine]}
            else:
                lines = {f"{name}, ms": [row["latency_ms"][name] for row in mine] for name in ("p50", "p99")}
            for name, values in lines.items():
                axis.plot(places, values, marker="o", label=name)
            axis.set_title(curve, fontsize=9)
            axis.set_ylim(0, 1.1 * max(map(max, lines.values())))
            axis.legend(fontsize=7)
        for axis in axes[len(curves) :]:
            axis.set_visible(False)


if __name__ == "__main__":
    main()
