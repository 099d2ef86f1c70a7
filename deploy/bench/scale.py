"""q7 on 10 to 1,000 simulated nodes: throughput, latency, and what each node reads, writes, works and holds.

    .venv/bin/python deploy/bench/scale.py [--sizes 10:50,50:50,100:100,1000:1000] [--seconds 6] [--out runs/scale]

Real nodes and drivers run in virtual time, in which every turn takes what it costs on this machine (calibrate.py, about
30 s; --costs FILE takes what was measured before). Every size runs with deltas at the plain interval and with one that
widens with the number of partitions. Executed and modelled parts: docs/design/scale.md. Results are compared
with the input; exit code 1 if one is wrong. Writes scale.json, scale.md and scale.svg.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deploy.bench.calibrate import calibrate, costs_of
from deploy.stand_ins import WINDOW_MS, BidTicks
from nexmark.bench.machine import machine
from nexmark.pictures import picture, write_files
from nexmark.queries import nexmark_job
from nodes.machine.config import NodeConfig
from nodes.settings.settings import NodeSettings
from nodes.sim.large_fleets.costs import Costs
from nodes.sim.large_fleets.timed import TimedFleet, TimedMember, TimedPlan

RATE = 10_000
"""Events a second and node."""
PAPER = {"nodes": 10, "holon_s": 0.64, "flink_s": 2.45}
"""Holon, Figure 9, q7 at 10,000 events a second and node."""
PLAIN = "every 200 ms"
WIDENING = "widening"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10:50,50:50,100:100,1000:1000", help="NODES:PARTITIONS,...")
    parser.add_argument("--seconds", type=float, default=6.0, help="of virtual time, after 1 s to warm up")
    parser.add_argument("--broadcast", default=f"{PLAIN},{WIDENING}")
    parser.add_argument("--costs", type=Path, help="JSON of calibrate.py")
    parser.add_argument("--tick", type=int, default=50, help="ms between stand-ins of a partition")
    parser.add_argument("--out", type=Path, default=Path("runs/scale"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = json.loads(options.costs.read_text()) if options.costs else calibrate(2.0)
    (options.out / "costs.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    rows = []
    for size in options.sizes.split(","):
        nodes, _, partitions = size.partition(":")
        for broadcast in kinds(options.broadcast.split(","), int(partitions or nodes)):
            plan = plan_of(int(nodes), int(partitions or nodes), options.seconds, broadcast, options.tick)
            rows.append(measured(plan, costs_of(found), broadcast))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            write(options.out, rows, found)
    print((options.out / "scale.md").read_text())
    if any(row["wrong"] for row in rows):
        raise SystemExit(1)


def kinds(wanted: list[str], partitions: int) -> list[str]:
    """Without what would be the same run again: few partitions widen no interval."""
    node = NodeSettings()
    same = 1000 * partitions <= node.broadcast_interval_ms * node.broadcast_max_per_s
    return [kind for kind in wanted if not (same and kind == WIDENING and PLAIN in wanted)]


def plan_of(nodes: int, partitions: int, seconds: float, broadcast: str, tick_ms: int = 50) -> TimedPlan:
    """A run with the settings that nodes have by default, but for the suspicion of others."""
    node = NodeSettings()
    config = NodeConfig(
        "",
        heartbeat_interval_ms=node.heartbeat_interval_ms if nodes <= 100 else 500,
        failure_timeout_ms=2000,
        broadcast_interval_ms=node.broadcast_interval_ms,
        checkpoint_interval_ms=node.checkpoint_interval_ms,
        broadcast_max_per_s=node.broadcast_max_per_s if broadcast == WIDENING else 0,
    )
    events = RATE * nodes / partitions * tick_ms / 1000
    return TimedPlan(
        nodes, partitions, config, events, WINDOW_MS, seconds, tick_ms=tick_ms, ticks=max(1, tick_ms // 10)
    )


def measured(plan: TimedPlan, costs: Costs, broadcast: str = PLAIN) -> dict[str, Any]:
    """One run."""
    bids, began_s = BidTicks(plan.partitions, plan.tick_ms), time.process_time()
    fleet = TimedFleet(plan, nexmark_job("q7"), bids, costs, time.thread_time_ns)
    fleet.live()
    latencies, wrong = answers(fleet, bids)
    seconds, topics = plan.seconds, fleet.topics
    shared = [member for member in fleet.members if not member.alone]
    alone = fleet.members[0]
    busy = np.array([member.busy_us / 1e6 / seconds for member in fleet.members])
    broadcast_bytes = fleet.log.written.get(topics.broadcast, 0) / seconds
    return {
        "nodes": plan.nodes, "partitions": plan.partitions, "broadcast": broadcast,
        "offered_per_s": round(RATE * plan.nodes), "consumed_per_s": round(fleet.consumed / seconds),
        "windows": len(latencies), "wrong": wrong,
        "latency_ms": spread(latencies),
        "deltas_per_s": round(fleet.log.records.get(topics.broadcast, 0) / seconds),
        "read_kb_per_s": round(sum(fleet.log.written.values()) / seconds / 1e3),
        "broadcast_kb_per_s": round(broadcast_bytes / 1e3),
        "broker_sends_mb_per_s": round(broadcast_bytes * plan.nodes / 1e6, 1),
        "busy_cores": {"mean": round(float(busy.mean()), 3), "max": round(float(busy.max()), 3)},
        "busy_by_kind": by_kind(shared or fleet.members, costs, seconds),
        "alone": checked(alone, costs, seconds),
        "replica_mb": round(held_bytes(alone.node.replica) / 1e6, 2),
        "ownership_mb": round(held_bytes(alone.node.ownership) / 1e6, 2),
        "base_mb": base_mb(), "took_cpu_s": round(time.process_time() - began_s, 1),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def answers(fleet: TimedFleet, bids: BidTicks) -> tuple[list[float], int]:
    """Milliseconds from the last record that closed each window to its first result, and how many were wrong."""
    first: dict[int, float] = {}
    wrong = 0
    for at_us, value in fleet.results:
        row = json.loads(value)
        end_ms = row["window_end"]
        first.setdefault(end_ms, at_us)
        wrong += row["price"] != bids.highest[end_ms]
    return [(first[end] - closed) / 1000 for end, closed in sorted(fleet.closed_us.items()) if end in first], wrong


def spread(found: Sequence[float]) -> dict[str, float] | None:
    """Average, median, 99th percentile, maximum."""
    if not found:
        return None
    shares = {"avg": np.mean(found), "p50": np.median(found), "p99": np.percentile(found, 99), "max": max(found)}
    return {name: round(float(value), 1) for name, value in shares.items()}


def by_kind(members: Sequence[TimedMember], costs: Costs, seconds: float) -> dict[str, float]:
    """Cores of a node by what they are spent on."""
    total = summed(members)
    return {k: round(us / len(members) / seconds / 1e6, 4) for k, us in costs.shares(total).items()}


def summed(members: Sequence[TimedMember]) -> Any:
    """The work of all of them."""
    total = type(members[0].done)()
    for member in members:
        total.add(member.done)
    return total


def checked(alone: TimedMember, costs: Costs, seconds: float) -> dict[str, float]:
    """The node that shares nothing: what its turns really took here, beside the model's cost of the same turns."""
    measured_us = sum(us for _, us in alone.turns)
    modelled_us = sum(costs.us(done) for done, _ in alone.turns)
    return {
        "turns": len(alone.turns), "cpu_cores": round(measured_us / 1e6 / seconds, 3),
        "model_over_measured": round(modelled_us / max(measured_us, 1), 2),
    }  # fmt: skip


def held_bytes(root: object) -> int:
    """Bytes of an object and of all that only data structures reach from it."""
    seen: set[int] = set()
    queue, total = [root], 0
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, (type, type(os), type(held_bytes))):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        queue += gc.get_referents(thing)
    return total


def base_mb() -> float:
    """Own memory of a process that has imported all that a node needs, compiled loops included where they are."""
    code = (
        "import os, nodes.streams.process, nexmark.queries; from nodes.compiled.loading import ensure; ensure();"
        "from nodes.metrics.process_memory import private_bytes; print(private_bytes(os.getpid()))"
    )
    if "base" not in _MEASURED:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        _MEASURED["base"] = round(int(done.stdout) / 1e6, 1)
    return _MEASURED["base"]


_MEASURED: dict[str, float] = {}


def write(folder: Path, rows: Sequence[dict[str, Any]], costs: dict[str, Any]) -> None:
    """JSON, table and picture."""
    found = {"rows": rows, "costs": costs, "paper": PAPER, "machine": machine()}
    write_files(folder, "scale", found, markdown(rows), lambda path: plot(rows, path))


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/design/scale.md."""
    lines = [
        "| nodes | partitions | deltas leave | events/s offered | taken | latency ms: avg | p99 | max | deltas/s | "
        "broadcast KB/s a node reads | broker sends MB/s | cores of a node: mean | max | MB of replica and fold |",
        "|" + "---|" * 14,
    ]
    for row in rows:
        found = row["latency_ms"] or dict.fromkeys(("avg", "p99", "max"), float("nan"))
        lines.append(
            f"| {row['nodes']:,} | {row['partitions']:,} | {row['broadcast']} | {row['offered_per_s']:,} | "
            f"{row['consumed_per_s']:,} | {found['avg']:.1f} | {found['p99']:.1f} | {found['max']:.1f} | "
            f"{row['deltas_per_s']:,} | {row['broadcast_kb_per_s']:,} | {row['broker_sends_mb_per_s']:,} | "
            f"{row['busy_cores']['mean']:.3f} | {row['busy_cores']['max']:.3f} | "
            f"{row['replica_mb'] + row['ownership_mb']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Latency, cores and bytes over the number of nodes."""
    with picture(path, 1, 3, (13, 4)) as (_, axes):
        kinds = list(dict.fromkeys(row["broadcast"] for row in rows))
        for kind in kinds:
            mine = [row for row in rows if row["broadcast"] == kind and row["latency_ms"]]
            nodes = [row["nodes"] for row in mine]
            axes[0].plot(nodes, [row["latency_ms"]["avg"] for row in mine], "o-", label=f"deltas {kind}")
            axes[1].plot(nodes, [row["busy_cores"]["mean"] for row in mine], "o-", label=kind)
            axes[2].plot(nodes, [row["broadcast_kb_per_s"] for row in mine], "o-", label=kind)
        axes[0].plot(
            [PAPER["nodes"]] * 2, [1000 * PAPER["holon_s"], 1000 * PAPER["flink_s"]], "x", label="the paper's two"
        )
        labels = ("average latency, ms", "cores of a node", "broadcast that a node reads, KB/s")
        for axis, label in zip(axes, labels, strict=True):
            scale = "log" if any(np.max(line.get_ydata(), initial=0) > 0 for line in axis.lines) else "linear"
            axis.set(xscale=scale, yscale=scale, xlabel="nodes", ylabel=label)
            axis.grid(alpha=0.3)
            axis.legend()


if __name__ == "__main__":
    main()
