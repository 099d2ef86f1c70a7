"""Transfers on 4, 8 and 16 simulated nodes: throughput of a burst, and latency at a rate, by nodes (YCSB-T).

    .venv/bin/python deploy/bench/txn_scale.py [--sizes 1,4,8,16] [--rate 2000] [--burst 20000] [--out runs/txn-scale]

Real drivers work on a log in memory in virtual time. A turn takes the CPU time that it has taken here, measured as it
runs, and what it has sent is on the log `--transit` ms after its end: no broker, no network card, a core for each node.
As many state partitions, and request partitions, as nodes. Replies are compared: every balance is what they make of it.
Writes txn_scale.json and .md; exit 1 if a balance is wrong. About a minute; --sizes 64 takes ten.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nexmark.bench.machine import machine
from nexmark.pictures import write_files
from nodes.log.memory import MemoryLog
from nodes.machine.claiming import Claiming
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.beginning import begin
from nodes.transactions.checkpointing import TransactionCheckpoints
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.topics import FIRST_INCARNATION, create_topics
from transactional.errors import Aborted
from transactional.messages import reply_message
from transactional.operators import Operator, Program
from transactional.requests import WireRequest, partition_of, request_record
from transactional.workloads import ycsb_t
from transactional.workloads.contract import Shape

MS = 1000.0
IDLE_US = 20 * MS
"""So often a node looks at the time where nothing comes."""
TOGETHER_US = 5 * MS
"""A client sends so rarely where it has a rate."""
ACCOUNTS = 10_000
HEAD = ("nodes", "burst, transactions/s", "CPU of all nodes, us each", "p50, ms", "p99, ms", "busiest node, cores",
        "run again, burst", "load")  # fmt: skip


def program_of(partitions: int) -> Program:
    """YCSB-T with another number of partitions: the functions are the same."""
    account = Operator("account", partitions=partitions)

    @account.register
    async def insert(ctx: Any) -> None:
        ctx.put(ycsb_t.INITIAL_BALANCE)

    @account.register
    async def read(ctx: Any) -> int:
        return ctx.get(0)

    @account.register
    async def add(ctx: Any, amount: int) -> None:
        ctx.put(ctx.get(0) + amount)

    @account.register
    async def transfer(ctx: Any, to: str, amount: int) -> int:
        balance = ctx.get(0) - amount
        if balance < 0:
            raise ycsb_t.NotEnough(ctx.key)
        ctx.put(balance)
        ctx.call_async(account, to, add, [amount])
        return balance

    return Program("ycsb-t", [account], errors=[ycsb_t.NotEnough])


class TimedLog(MemoryLog):
    """What is sent in a turn waits in ``outbox``."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        super().__init__(clock_ms=clock_ms)
        self.outbox: list[tuple[str, int, Sequence[bytes], Callable[[int], None]]] = []

    def send(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> None:
        self.outbox.append((topic, partition, values, more.get("done", lambda end: None)))


class Fleet:
    """Nodes in virtual time, in microseconds."""

    def __init__(self, nodes: int, transit_us: float) -> None:
        self.now_us, self.transit_us = 0.0, transit_us
        self.program = program_of(nodes)
        self.log = TimedLog(self.now_ms)
        self.topics = create_topics(self.log, self.program, nodes)
        begin(self.log, self.topics, self.program, nodes)
        self.drivers = [self._driver(number, nodes) for number in range(nodes)]
        self.free_us = [0.0] * nodes
        self.busy_us = [0.0] * nodes
        self.nodes = nodes
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.answered_us: dict[str, float] = {}
        self.outcomes: dict[str, Any] = {}
        for number in range(nodes):
            self.at(0.0, partial(self._look, number, idle=True))

    def now_ms(self) -> int:
        return int(self.now_us / MS)

    def _driver(self, number: int, nodes: int) -> TransactionDriver:
        name = f"n{number:03}"
        claiming = Claiming(name, number, FIRST_INCARNATION, 2 * nodes, suspect_after_ms=100_000, groups=(nodes, nodes))
        checkpoints = TransactionCheckpoints(
            MemoryCheckpoints(), self.program.name, name, claiming.ownership, sequencers=nodes, interval_ms=1_000
        )
        return TransactionDriver(
            self.program, self.topics, self.log, claiming, checkpoints, self.now_ms, self.now_ms, sequencers=nodes
        )

    def at(self, us: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (us, self._count, what))

    def run(self, until: Callable[[], bool], limit_s: float = 120.0) -> None:
        """Until something holds; fails if that takes more than ``limit_s`` of virtual time."""
        end_us = self.now_us + limit_s * 1e6
        while not until():
            us, _, what = heapq.heappop(self._events)
            self.now_us = max(self.now_us, us)
            assert self.now_us < end_us, f"not done after {limit_s:g} s of virtual time"
            what()

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _look(self, number: int, *, idle: bool = False) -> None:
        """A turn, if the node is free and something is there for it, or it has not looked for long."""
        if self.free_us[number] > self.now_us:
            if not idle:
                return  # it looks when it is free
            self.at(self.free_us[number], partial(self._look, number, idle=True))
            return
        if not idle and not self._has_news(number):
            return
        began = time.thread_time_ns()
        self.drivers[number].turn()
        spent_us = (time.thread_time_ns() - began) / 1e3
        self.busy_us[number] += spent_us
        self.free_us[number] = end_us = self.now_us + spent_us
        sent, self.log.outbox = self.log.outbox, []
        for each in sent:
            self.at(end_us + self.transit_us, partial(self._arrive, *each))
        self.at(end_us, partial(self._look, number))
        if idle:
            self.at(end_us + IDLE_US, partial(self._look, number, idle=True))

    def _has_news(self, number: int) -> bool:
        log = self.log
        return any(log.end_offset(*where) > offset for where, offset in self.drivers[number].waits_for().items())

    def _arrive(self, topic: str, partition: int, values: Sequence[bytes], done: Callable[[int], None]) -> None:
        appended = self.log.append(topic, partition, values)
        done(appended.first_offset + appended.count)
        if topic == self.topics.replies:
            for value in values:
                for reply in reply_message(value).replies:
                    self.answered_us.setdefault(reply.id, self.now_us)
                    self.outcomes.setdefault(reply.id, reply.outcome)
        elif topic != self.topics.heartbeats:
            for number in range(self.nodes):
                self._look(number)

    # --- clients ----------------------------------------------------------------------------------------------------

    def ask(self, requests: Sequence[WireRequest], after_us: float = 0.0) -> None:
        """They are on the log after the way there."""
        by_place: dict[int, list[WireRequest]] = {}
        for request in requests:
            by_place.setdefault(partition_of(request.id, self.nodes), []).append(request)
        for place, asked in sorted(by_place.items()):
            records = [request_record(asked[at : at + 200]) for at in range(0, len(asked), 200)]
            arrive = partial(self._arrive, self.topics.requests, place, records, int)
            self.at(self.now_us + after_us + self.transit_us, arrive)

    def answer(self, requests: Sequence[WireRequest]) -> None:
        """Run until all of these are answered."""
        wanted = len(self.answered_us) + sum(request.id not in self.answered_us for request in requests)
        self.run(lambda: len(self.answered_us) >= wanted)


def measured(nodes: int, burst: int, rate: float, seconds: float, transit_ms: float) -> dict[str, Any]:
    """One size."""
    load = round(os.getloadavg()[0], 1)
    fleet = Fleet(nodes, transit_ms * MS)
    wanted = 2 * nodes
    fleet.run(lambda: all(d.claiming.joined for d in fleet.drivers) and _owned(fleet) == wanted)
    inserts = ycsb_t.inserts(ACCOUNTS)
    fleet.ask(inserts)
    fleet.answer(inserts)
    gc.collect()
    asked = ycsb_t.workload.requests(Shape(ACCOUNTS, 0.5), 0, burst + round(rate * seconds))
    first, later = asked[:burst], asked[burst:]
    reruns, began_us, busy = _rerun(fleet), fleet.now_us, sum(fleet.busy_us)
    fleet.ask(first)
    fleet.answer(first)
    burst_s, burst_cpu = (fleet.now_us - began_us) / 1e6, sum(fleet.busy_us) - busy
    again = _rerun(fleet) - reruns
    busy_by, began_us = list(fleet.busy_us), fleet.now_us
    sent: dict[str, float] = {}
    per = max(1, round(rate * TOGETHER_US / 1e6))
    for at in range(0, len(later), per):
        after_us = at / rate * 1e6
        sent |= {request.id: began_us + after_us for request in later[at : at + per]}
        fleet.ask(later[at : at + per], after_us)
    fleet.answer(later)
    spent_us = fleet.now_us - began_us
    latency = np.array([fleet.answered_us[name] - us for name, us in sent.items()]) / MS
    return {
        "nodes": nodes, "burst_per_s": round(burst / burst_s), "cpu_us_each": round(burst_cpu / burst, 1),
        "reruns": round(again / burst, 3), "rate": rate, "seconds": seconds, "transit_ms": transit_ms,
        "latency_ms": {f"p{share}": round(float(np.percentile(latency, share)), 1) for share in (50, 99)},
        "busiest_cores": round(max(b - a for a, b in zip(busy_by, fleet.busy_us, strict=True)) / spent_us, 3),
        "wrong": wrong(fleet, asked), "load": load,
    }  # fmt: skip


def _rerun(fleet: Fleet) -> int:
    return sum(driver.tally.rerun for driver in fleet.drivers)


def _owned(fleet: Fleet) -> int:
    return sum(len(d.node.sequencers) + len(d.node.partitions) for d in fleet.drivers)


def wrong(fleet: Fleet, asked: Sequence[WireRequest]) -> int:
    """Accounts whose balance is not what the replies make of it."""
    expected = Counter({ycsb_t.account_key(number): ycsb_t.INITIAL_BALANCE for number in range(ACCOUNTS)})
    for request in asked:
        if not isinstance(fleet.outcomes[request.id], Aborted):
            to, amount = request.args
            expected[request.key] -= amount
            expected[to] += amount
    reads = ycsb_t.reads("end", ACCOUNTS)
    fleet.ask(reads)
    fleet.answer(reads)
    return sum(fleet.outcomes[request.id] != expected[request.key] for request in reads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,4,8,16")
    parser.add_argument("--burst", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=2_000.0)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--transit", type=float, default=1.0, help="ms from a send to the record on the log")
    parser.add_argument("--out", type=Path, default=Path("runs/txn-scale"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in options.sizes.split(","):
        rows.append(measured(int(size), options.burst, options.rate, options.seconds, options.transit))
        print(json.dumps(rows[-1]), flush=True)
    text = "\n".join([f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", *map(line, rows)]) + "\n"
    write_files(options.out, "txn_scale", {"rows": rows, "machine": machine()}, text)
    print(text)
    if any(row["wrong"] for row in rows):
        raise SystemExit("a balance is not what the replies make of it: see txn_scale.json")


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    spread = row["latency_ms"]
    each = (
        row["nodes"],
        f"{row['burst_per_s']:,}",
        row["cpu_us_each"],
        spread["p50"],
        spread["p99"],
        row["busiest_cores"],
        row["reruns"],
        row["load"],
    )
    return f"| {' | '.join(map(str, each))} |"


if __name__ == "__main__":
    main()
