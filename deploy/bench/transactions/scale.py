"""Transfers on 1 to 16 simulated nodes: throughput of a burst, and latency at rates, by nodes (YCSB-T).

    .venv/bin/python deploy/bench/transactions/scale.py [--sizes 1,2,4,8,16] [--burst 10000] [--rates 2000,20000,60000]

Real drivers work in virtual time, each in a process of its own (``node.py``). A turn takes the CPU time that it has
taken here, and what it has sent is on the log ``--transit`` ms after its end. There is no broker and no network card,
and each node has a core; checkpoints are saved beside the loop. As many state partitions, and request partitions, as
nodes. Replies are compared: every balance is what they make of it. Writes txn_scale.json and .md; exit 1 if a balance
is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deploy.bench.transactions.fleet import VirtualFleet, fleet_of
from deploy.bench.transactions.node import MS
from nexmark.bench.machine import machine
from nexmark.pictures import write_files
from transactional.errors import Aborted
from transactional.requests.requests import WireRequest
from transactional.workloads import ycsb_t
from transactional.workloads.contract import WorkloadShape

TOGETHER_US = 5 * MS
"""A client sends so rarely where it has a rate."""
ACCOUNTS = 10_000
HEAD = ("nodes", "burst, transactions/s", "CPU of all nodes, us each", "busiest node, cores")


def measured(
    nodes: int, burst: int, rates: Sequence[float], seconds: float, transit_ms: float, zipf: float = 0.5
) -> dict[str, Any]:
    """One size; ``burst`` is of all nodes together."""
    load = round(os.getloadavg()[0], 1)
    with fleet_of(nodes, transit_ms * MS) as fleet:
        inserts = ycsb_t.inserts(ACCOUNTS)
        fleet.send(inserts)
        fleet.answer(inserts)
        counts = [round(rate * seconds) for rate in rates]
        requests = ycsb_t.workload.requests(WorkloadShape(ACCOUNTS, zipf), 0, burst + sum(counts))
        before = FleetWork(fleet)
        fleet.send(requests[:burst])
        fleet.answer(requests[:burst])
        after, at = FleetWork(fleet), burst
        row = {"nodes": nodes, "burst": burst, "transit_ms": transit_ms} | after.since(before, burst)
        row["rates"] = []
        for rate, count in zip(rates, counts, strict=True):
            row["rates"].append(_at_rate(fleet, requests[at : at + count], rate))
            at += count
        return row | {"wrong": wrong(fleet, requests), "load": load}


class FleetWork:
    """The work of a fleet up to now."""

    def __init__(self, fleet: VirtualFleet) -> None:
        self.now_us = fleet.now_us
        self.busy_us = [member.busy_us for member in fleet.members]
        self.beside_us = sum(member.beside_us for member in fleet.members)
        self.turns = sum(member.turns for member in fleet.members)
        self.read = sum(member.read_bytes for member in fleet.members)
        last = [member.last for member in fleet.members if member.last is not None]
        self.reruns, self.epochs = sum(each.reruns for each in last), max(each.epochs for each in last)

    def since(self, before: FleetWork, count: int) -> dict[str, Any]:
        """Of ``count`` transactions; turns and bytes are those of a node in an epoch."""
        spent_us = self.now_us - before.now_us
        each_us = [end - begin for begin, end in zip(before.busy_us, self.busy_us, strict=True)]
        epochs = max(1, self.epochs - before.epochs)
        of_node = epochs * len(each_us)
        return {
            "per_s": round(count / spent_us * 1e6),
            "cpu_us_each": round(sum(each_us) / count, 1),
            "saving_us_each": round((self.beside_us - before.beside_us) / count, 1),
            "busiest_cores": round(max(each_us) / spent_us, 3),
            "epochs_per_s": round(epochs / spent_us * 1e6, 1),
            "turns_an_epoch": round((self.turns - before.turns) / of_node, 1),
            "kb_read_an_epoch": round((self.read - before.read) / of_node / 1e3, 1),
            "reruns": round((self.reruns - before.reruns) / count, 3),
        }


def _at_rate(fleet: VirtualFleet, requests: Sequence[WireRequest], rate: float) -> dict[str, Any]:
    sent: dict[str, float] = {}
    per, before = max(1, round(rate * TOGETHER_US / 1e6)), FleetWork(fleet)
    for at in range(0, len(requests), per):
        after_us = at / rate * 1e6
        sent |= {request.id: before.now_us + after_us for request in requests[at : at + per]}
        fleet.send(requests[at : at + per], after_us)
    fleet.answer(requests)
    latency = np.array([fleet.answered_us[name] - us for name, us in sent.items()]) / MS
    row = {f"p{share}_ms": round(float(np.percentile(latency, share)), 1) for share in (50, 99)}
    return (
        {"rate": rate, "seconds": round(len(requests) / rate, 2)} | row | FleetWork(fleet).since(before, len(requests))
    )


def wrong(fleet: VirtualFleet, requests: Sequence[WireRequest]) -> int:
    """Accounts whose balance is not what the replies make of it."""
    expected = Counter({ycsb_t.account_key(number): ycsb_t.INITIAL_BALANCE for number in range(ACCOUNTS)})
    for request in requests:
        if not isinstance(fleet.outcomes[request.id], Aborted):
            to, amount = request.args
            expected[request.key] -= amount
            expected[to] += amount
    reads = ycsb_t.reads("end", ACCOUNTS)
    fleet.send(reads)
    fleet.answer(reads)
    return sum(fleet.outcomes[request.id] != expected[request.key] for request in reads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--burst", type=int, default=10_000, help="transactions for each node")
    parser.add_argument("--rates", default="2000,20000,60000", help="of all nodes together, one after the other")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each rate")
    parser.add_argument("--zipf", type=float, default=0.5)
    parser.add_argument("--transit", type=float, default=1.0, help="ms from a send to the record on the log")
    parser.add_argument("--out", type=Path, default=Path("runs/txn-scale"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rates = [float(rate) for rate in options.rates.split(",") if rate]
    rows = []
    for size in map(int, options.sizes.split(",")):
        rows.append(measured(size, size * options.burst, rates, options.seconds, options.transit, options.zipf))
        print(json.dumps(rows[-1]), flush=True)
    heads = [*HEAD, *(f"{rate:,.0f}/s: p50, p99 in ms; busiest node, cores" for rate in rates), "load"]
    text = "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *map(line, rows)]) + "\n"
    write_files(options.out, "txn_scale", {"rows": rows, "machine": machine()}, text)
    print(text)
    if any(row["wrong"] for row in rows):
        raise SystemExit("a balance is not what the replies make of it: see txn_scale.json")


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    at_rates = [f"{each['p50_ms']}, {each['p99_ms']}; {each['busiest_cores']}" for each in row["rates"]]
    each = (row["nodes"], f"{row['per_s']:,}", row["cpu_us_each"], row["busiest_cores"], *at_rates, row["load"])
    return f"| {' | '.join(map(str, each))} |"


if __name__ == "__main__":
    main()
