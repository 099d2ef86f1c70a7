"""Nodes that join and leave while transfers between many accounts run: how long no reply comes.

    .venv/bin/python deploy/bench/transactions/moving.py [--keys 1000000] [--rate 2000] [--seconds 20] [--rounds 3]
        [--bootstrap HOST:PORT] [--json]

A third node joins at 0.3 of the replies, and the first one leaves at 0.6. Nodes begin with checkpoints that hold the
accounts. A node that joins loads its partitions beside its loop, and claims them once it is caught up. A node process
that starts takes a core for 0.4 s, so figures on two cores have that in them.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

from deploy.bench.transactions.state_nodes import Steady, measured
from nodes.transactions.bench.fleet import Change

CHANGES = (Change(0.3, "add-node"), Change(0.6, "remove-node"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bootstrap", help="a Kafka broker, HOST:PORT; else the log is an embedded one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    plan = Steady(options.keys, options.rate, options.seconds, options.rounds, options.bootstrap)
    runs = [measured(plan, changes=CHANGES) for _ in range(plan.rounds)]
    found: dict[str, Any] = {
        f"longest silence after {change.kind}, ms": round(
            median(run["changes"][number]["longest_silence_ms"] for run in runs), 1
        )
        for number, change in enumerate(CHANGES)
    }
    found |= {f"{each}, ms": round(median(run["latency_ms"][each] for run in runs), 1) for each in ("p50", "p99")}
    found |= {"keys": plan.keys, "rate": plan.rate, "rounds": plan.rounds}
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:<40}{value}")


if __name__ == "__main__":
    main()
