"""Measures a workload on node processes, and checks its invariants afterwards."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psutil

from nodes.errors import RunFailed
from nodes.log import Log
from nodes.transactions.client import TransactionClient
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import create_topics
from transactional.errors import Aborted
from transactional.ledger import FIRST_EPOCH, Ledger
from transactional.messages import reply_message
from transactional.requests import WireRequest
from transactional.workloads.contract import History, Shape, Workload, unexpected

ANSWER_S = 120.0
VIOLATIONS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """``rate`` None: one burst. ``kills``: node number and the share of the replies at which it is killed.

    ``options`` of the command line tell the nodes where the log is.
    """

    workload: Workload
    shape: Shape
    transactions: int
    rate: float | None
    nodes: int
    sequencers: int
    kills: tuple[tuple[int, float], ...] = ()
    options: tuple[str, ...] = ()


def run_bench(log: Log, plan: BenchPlan) -> dict[str, object]:
    """One line of JSON as ``docs/cli.md`` describes it; it begins when all nodes have joined, and with loading.

    Raises ``RunFailed`` if replies stay out.
    """
    workload = plan.workload
    topics = create_topics(log, workload.program, plan.sequencers)
    client = TransactionClient(log, workload.program.name)
    with _nodes(plan) as processes:
        wait_until_settled(log, topics, (plan.sequencers, workload.program.partitions), plan.nodes, ANSWER_S)
        loaded = _ask(client, workload.load(plan.shape), None, [], ())
        if any(isinstance(outcome, Aborted) for outcome in loaded.outcomes.values()):
            raise RunFailed(f"{workload.name} was loaded in vain: {unexpected(workload, loaded)}; is its log new?")
        cpu = _cpu_s(processes)
        asked = _ask(client, workload.requests(plan.shape, 0, plan.transactions), plan.rate, processes, plan.kills)
        cpu_s = _cpu_s(processes) - cpu

        def ask(requests: Sequence[WireRequest]) -> dict[str, Any]:
            return _ask(client, requests, None, [], ()).outcomes

        wrong = unexpected(workload, asked) + workload.check(plan.shape, asked, ask)
    figures = {**_figures(plan, asked, cpu_s), **_counts(log, plan)}
    return {**figures, "invariants": not wrong, "violations": wrong[:VIOLATIONS_SHOWN]}


def _ask(
    client: TransactionClient,
    requests: Sequence[WireRequest],
    rate: float | None,
    processes: Sequence[subprocess.Popen[bytes]],
    kills: Sequence[tuple[int, float]],
) -> History:
    """Send all, at ``rate`` a second or at once, and wait for all replies."""
    asked, waiting, pending = History(list(requests)), list(kills), 0
    start = last = time.monotonic()
    while len(asked.answered) < len(requests):
        now = time.monotonic()
        due = len(requests) if rate is None else min(len(requests), int((now - start) * rate))
        if due > pending:
            now = time.monotonic()
            asked.sent.update((request.id, now) for request in requests[pending:due])
            client.ask_all(requests[pending:due])
        pending = max(pending, due)
        client.receive(0.001 if pending < len(requests) else 0.05)
        now = time.monotonic()
        for name, outcome in client.take_all():
            asked.answered[name] = last = now
            asked.outcomes[name] = outcome
        while waiting and len(asked.answered) >= waiting[0][1] * len(requests):
            processes[waiting.pop(0)[0]].send_signal(signal.SIGKILL)
        if now - last > ANSWER_S:
            raise RunFailed(f"{len(requests) - len(asked.answered)} requests had no reply for {ANSWER_S:g} s")
    return asked


def _figures(plan: BenchPlan, asked: History, cpu_s: float) -> dict[str, object]:
    count = len(asked.answered)
    times = sorted(asked.answered.values())
    latencies = sorted(1000 * (asked.answered[name] - sent) for name, sent in asked.sent.items())
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    quantiles = {name: latencies[math.ceil(share * count) - 1] for name, share in shares.items()}
    gaps = [later - sooner for sooner, later in pairwise(times)]
    return {
        "workload": plan.workload.name,
        "size": plan.shape.size,
        "scale": plan.shape.scale,
        "zipf": plan.shape.zipf,
        "nodes": plan.nodes,
        "rate": plan.rate,
        "transactions": count,
        "transactions_per_s": round(count / (times[-1] - min(asked.sent.values()))),
        "user_aborted": sum(isinstance(outcome, Aborted) for outcome in asked.outcomes.values()),
        "latency_ms": {"avg": sum(latencies) / count, **quantiles, "max": latencies[-1]},
        "longest_silence_ms": 1000 * max(gaps, default=0.0),
        "cpu_us_per_transaction": 1e6 * cpu_s / count,
    }


def _counts(log: Log, plan: BenchPlan) -> dict[str, object]:
    """What the log says, of loading and checking too."""
    program = plan.workload.program
    ledger = Ledger(program, plan.sequencers)
    topic = f"{program.name}-txn-epochs"
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
        "repeats_dropped": sum(
            _repeats(log, f"{program.name}-txn-replies", partition) for partition in range(program.partitions)
        ),
    }


def _repeats(log: Log, topic: str, partition: int) -> int:
    """Reply records that a reader drops."""
    offset, last, found = 0, (0, 0), 0
    end = log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset)
        for value in chunk.values:
            record = reply_message(value)
            for n in range(record.first, record.first + len(record.replies)):
                found += (record.epoch, n) <= last
                last = max(last, (record.epoch, n))
        offset = max(chunk.next_offset, offset + 1)
    return found


@contextmanager
def _nodes(plan: BenchPlan) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "nodes.cli", "txn", "node", plan.workload.reference]
    command += ["--sequencers", str(plan.sequencers), *plan.options]
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
