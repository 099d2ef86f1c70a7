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
import tempfile
from statistics import median
from typing import Any

from deploy.bench.transactions.state_nodes import NODES, SEQUENCERS, WARMUP_S, Steady, load_accounts, log_for_run
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.transactions.bench.fleet import Change
from nodes.transactions.bench.run import BenchPlan, run_bench
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.ycsb_t import workload

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
    runs = [_measured(plan) for _ in range(plan.rounds)]
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


def _measured(plan: Steady) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, log_for_run(folder, plan.bootstrap) as (log, place):
        checkpoints = f"{folder}/checkpoints"
        load_accounts(log, ObjectCheckpoints(checkpoints), plan.keys)
        bench = BenchPlan(
            workload,
            WorkloadShape(plan.keys, 0.5),
            plan.rate * plan.seconds,
            plan.rate,
            NODES,
            SEQUENCERS,
            CHANGES,
            options=tuple(part for each in (*place, f"checkpoints.url={checkpoints}") for part in ("-D", each)),
            warmup_s=WARMUP_S,
            loaded=True,
        )
        return run_bench(log, bench).figures


if __name__ == "__main__":
    main()
