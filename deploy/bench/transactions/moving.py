"""Nodes that join, leave and are renewed while transfers between many accounts run: how long no reply comes.

    .venv/bin/python deploy/bench/transactions/moving.py [--keys 1000000] [--rate 2000] [--seconds 20] [--rounds 3]
        [--bootstrap HOST:PORT] [--at-once] [--rolling] [--json]

A third node joins at 0.3 of the replies, and the first one leaves at 0.6. With ``--rolling`` both first nodes are
renewed, one after the other: two nodes join and two leave. ``--at-once`` measures besides, in turn, nodes that leave
without handing over (``node.handover_timeout_ms=0``). Nodes begin with checkpoints that hold the accounts. A node that
joins loads its partitions beside its loop, and claims them once it is caught up. A node process that starts takes a
core for 0.4 s, so figures on two cores have that in them.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

from deploy.bench.transactions.state_nodes import Steady, measured
from nodes.transactions.bench.fleet import Change, Kind

CHANGES = (Change(0.3, "add-node"), Change(0.6, "remove-node"))
ROLLING = (*(Change(share, "add-node") for share in (0.15, 0.5)), *(Change(s, "remove-node") for s in (0.35, 0.75)))
KINDS: tuple[Kind, ...] = ("add-node", "remove-node")
WAYS = {"with handover": (), "at once": ("node.handover_timeout_ms=0",)}


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Of the rounds of one way; of several changes of a kind the longest silence counts."""
    found: dict[str, float] = {}
    for kind in KINDS:
        silences = [[c["longest_silence_ms"] for c in run["changes"] if c["change"] == kind] for run in runs]
        found[f"longest silence after {kind}, ms"] = round(median(map(max, silences)), 1)
    return found | {f"{each}, ms": round(median(run["latency_ms"][each] for run in runs), 1) for each in ("p50", "p99")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bootstrap", help="a Kafka broker, HOST:PORT; else the log is an embedded one")
    parser.add_argument("--at-once", action="store_true", help="also nodes that leave without handing over")
    parser.add_argument("--rolling", action="store_true", help="both nodes are renewed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    plan = Steady(options.keys, options.rate, options.seconds, options.rounds, options.bootstrap)
    changes = tuple(sorted(ROLLING)) if options.rolling else CHANGES
    ways = list(WAYS) if options.at_once else list(WAYS)[:1]
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(plan.rounds):
        for way in ways:
            runs[way].append(measured(plan, WAYS[way], changes))
    plain = {"keys": plan.keys, "rate": plan.rate, "rounds": plan.rounds}
    found: dict[str, Any] = plain | {way: medians(runs[way]) for way in ways}
    if options.json:
        print(json.dumps(found))
        return
    print(", ".join(f"{name} {value}" for name, value in plain.items()))
    for way in ways:
        for name, value in found[way].items():
            print(f"{way + ':':<15}{name:<40}{value:>8}")


if __name__ == "__main__":
    main()
