"""Measures a workload on node processes, and checks its invariant afterwards."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import psutil

from nodes.errors import RunFailed
from nodes.log import Log
from nodes.transactions.client import TransactionClient
from nodes.transactions.topics import create_topics
from transactional.errors import Aborted
from transactional.ledger import FIRST_EPOCH, Ledger
from transactional.messages import reply_message
from transactional.requests import WireRequest
from transactional.workloads import ycsb_t

ANSWER_S = 120.0
PROGRAM = "transactional.workloads.ycsb_t:program"


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """``rate`` None: one burst. ``kills``: node number and the share of the replies at which it is killed.

    ``options`` of the command line tell the nodes where the log is.
    """

    transactions: int
    rate: float | None
    zipf: float
    nodes: int
    sequencers: int
    kills: tuple[tuple[int, float], ...] = ()
    seed: int = 1
    accounts: int = ycsb_t.ACCOUNTS
    options: tuple[str, ...] = ()


@dataclass(slots=True)
class _Asked:
    """Requests of one run: when each was sent and answered, in seconds."""

    sent: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    aborted: int = 0


def run_bench(log: Log, plan: BenchPlan) -> dict[str, object]:
    """One line of JSON as ``docs/cli.md`` describes it. Raises ``RunFailed`` if replies stay out."""
    create_topics(log, ycsb_t.program, plan.sequencers)
    client = TransactionClient(log, ycsb_t.program.name)
    with _nodes(plan) as processes:
        _ask(client, ycsb_t.inserts(plan.accounts), None, [], ())
        cpu = _cpu_s(processes)
        asked = _ask(
            client,
            ycsb_t.transfers(0, plan.transactions, zipf=plan.zipf, seed=plan.seed, accounts=plan.accounts),
            plan.rate,
            processes,
            plan.kills,
        )
        cpu_s = _cpu_s(processes) - cpu
        balances = _balances(client, plan.accounts)
    return {**_figures(plan, asked, cpu_s), **_counts(log, plan), "invariants": balances}


def _ask(
    client: TransactionClient,
    requests: Sequence[WireRequest],
    rate: float | None,
    processes: Sequence[subprocess.Popen[bytes]],
    kills: Sequence[tuple[int, float]],
) -> _Asked:
    """Send all, at ``rate`` a second or at once, and wait for all replies."""
    asked, waiting, pending = _Asked(), list(kills), 0
    start = last = time.monotonic()
    while len(asked.answered) < len(requests):
        now = time.monotonic()
        due = len(requests) if rate is None else min(len(requests), int((now - start) * rate))
        for request in requests[pending:due]:
            asked.sent[request.id] = time.monotonic()
            client.ask(request)
        pending = max(pending, due)
        client.receive(0.001 if pending < len(requests) else 0.05)
        now = time.monotonic()
        for name, outcome in client.take_all():
            asked.answered[name] = last = now
            asked.aborted += isinstance(outcome, Aborted)
        while waiting and len(asked.answered) >= waiting[0][1] * len(requests):
            processes[waiting.pop(0)[0]].send_signal(signal.SIGKILL)
        if now - last > ANSWER_S:
            raise RunFailed(f"{len(requests) - len(asked.answered)} requests had no reply for {ANSWER_S:g} s")
    return asked


def _balances(client: TransactionClient, accounts: int) -> bool:
    """Whether the money is all there."""
    ids = [client.ask(request) for request in ycsb_t.reads("read", accounts)]
    found: dict[str, int] = {}
    end = time.monotonic() + ANSWER_S
    while len(found) < len(ids):
        client.receive(0.05)
        found.update(client.take_all())
        if time.monotonic() > end:
            raise RunFailed("the accounts could not be read afterwards")
    return sum(found[name] for name in ids) == accounts * ycsb_t.INITIAL_BALANCE


def _figures(plan: BenchPlan, asked: _Asked, cpu_s: float) -> dict[str, object]:
    count = len(asked.answered)
    times = sorted(asked.answered.values())
    latencies = sorted(1000 * (asked.answered[name] - sent) for name, sent in asked.sent.items())
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    quantiles = {name: latencies[math.ceil(share * count) - 1] for name, share in shares.items()}
    gaps = [later - sooner for sooner, later in pairwise(times)]
    return {
        "workload": "ycsb-t",
        "zipf": plan.zipf,
        "nodes": plan.nodes,
        "rate": plan.rate,
        "transactions": count,
        "transactions_per_s": round(count / (times[-1] - min(asked.sent.values()))),
        "user_aborted": asked.aborted,
        "latency_ms": {"avg": sum(latencies) / count, **quantiles, "max": latencies[-1]},
        "longest_silence_ms": 1000 * max(gaps, default=0.0),
        "cpu_us_per_transaction": 1e6 * cpu_s / count,
    }


def _counts(log: Log, plan: BenchPlan) -> dict[str, object]:
    """What the log says: of the loading and reading of accounts too, which never conflict."""
    ledger = Ledger(ycsb_t.program, plan.sequencers)
    topic = f"{ycsb_t.program.name}-txn-epochs"
    end = log.end_offset(topic, 0)
    while ledger.position < end:
        chunk = log.read(topic, 0, ledger.position)
        for value in chunk.values:
            ledger.apply(value)
        ledger.position = max(chunk.next_offset, ledger.position + 1)
    done = [ledger.epoch(number) for number in range(FIRST_EPOCH, ledger.done + 1)]
    decisions = [epoch.decision for epoch in done if epoch.decision is not None]
    outcomes = [epoch.outcome for epoch in done if epoch.outcome is not None]
    return {
        "epochs": len(done),
        "conflicts": sum(len(decision.rerun) for decision in decisions),
        "reruns": sum(len(outcome.outcomes) for outcome in outcomes),
        "postponed": sum(len(outcome.postponed) for outcome in outcomes),
        "repeats_dropped": sum(_repeats(log, partition) for partition in range(ycsb_t.program.partitions)),
    }


def _repeats(log: Log, partition: int) -> int:
    """Reply records that a reader drops."""
    topic, offset, last, found = f"{ycsb_t.program.name}-txn-replies", 0, (0, 0), 0
    end = log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset)
        for value in chunk.values:
            reply = reply_message(value)
            found += (reply.epoch, reply.n) <= last
            last = max(last, (reply.epoch, reply.n))
        offset = max(chunk.next_offset, offset + 1)
    return found


@contextmanager
def _nodes(plan: BenchPlan) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "nodes.cli", "txn", "node", PROGRAM, "--sequencers", str(plan.sequencers)]
    command += plan.options
    processes = [subprocess.Popen([*command, "--number", str(number)]) for number in range(plan.nodes)]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(ANSWER_S)


def _cpu_s(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """CPU seconds of those that live."""
    total = 0.0
    for process in processes:
        try:
            times = psutil.Process(process.pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
