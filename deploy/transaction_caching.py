"""Possible savings by a cache of call graphs: the messages of transactions that are run again, and of their reruns.

Styx runs what conflicts again over the network, message by message, and its cache saves these messages (section 6.3,
Figure 8). Without a cache a rerun would send as much as the first run, one call after the other; with one, only acks.
Here a rerun runs on read-set snapshots. All of it is counted on the log of a run of `holon txn bench`.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodes.log import Log, open_log
from nodes.log.contract import FetchedRecords
from nodes.transactions.bench.prepared import each_chunk
from nodes.transactions.bench.run import BenchPlan, run_bench
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.epoch import Epoch
from transactional.epochs.ledger import FIRST_EPOCH, Ledger
from transactional.epochs.messages import BadRecord, Calls, RecordPiece, call_message, to_bytes
from transactional.epochs.pieces import RecordPieces
from transactional.operators import Program
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape

SEQUENCERS = 4
RUNS: tuple[tuple[str, int | None, float], ...] = (
    ("ycsb-t", None, 0.99),
    ("tpcc", None, 0.0),
    ("cycle", 50, 0.5),
    ("append", 30, 0.9),
)
"""Workload, times of the requests, Zipf: from no conflict that needs a rerun to hardly anything else."""


def caching(transactions: int) -> list[dict[str, Any]]:
    """A burst of each workload, on an embedded log; a row each."""
    return [_measured(name, size, zipf, transactions) for name, size, zipf in RUNS]


def _measured(name: str, size: int | None, zipf: float, transactions: int) -> dict[str, Any]:
    workload = WORKLOADS[name]
    shape = WorkloadShape(workload.size if size is None else size, zipf)
    with tempfile.TemporaryDirectory(prefix="holon-caching-") as folder:
        options = ("-D", f"log.path={folder}/log", "-D", f"checkpoints.url={Path(folder, 'saved')}")
        with open_log(f"embedded:{folder}/log") as log:
            figures = run_bench(log, BenchPlan(workload, shape, transactions, None, 2, SEQUENCERS, (), options)).figures
            if not figures["invariants"]:
                raise RuntimeError(f"{name} broke its invariants: {figures['violations']}")
            return {"workload": name, **messages(log, workload.program, SEQUENCERS)}


def messages(log: Log, program: Program, sequencers: int) -> dict[str, float]:
    """Of all that a job has done, what was loaded included."""
    ledger = _ledger(log, program, sequencers)
    epochs = [ledger.epoch(number) for number in range(FIRST_EPOCH, ledger.done + 1)]
    again = {tid for epoch in epochs if epoch.decision is not None for tid in epoch.decision.rerun}
    sent, rounds, of_reruns = Counter[int](), dict[int, int](), 0
    ended = {epoch.number: epoch.last_round or 0 for epoch in epochs}
    first: dict[int, int] = {}
    for calls in sorted(_calls(log, program, epochs), key=lambda each: (each.epoch, each.round)):
        for item in calls.items:
            if calls.round > ended.get(calls.epoch, 0) or first.setdefault(item.tid, calls.epoch) != calls.epoch:
                of_reruns += 1
                continue
            sent[item.tid] += 1
            rounds[item.tid] = max(rounds.get(item.tid, 0), calls.round)
    count = sum(cut.count for epoch in epochs for cut in epoch.cuts.values())
    logged = sum(len(to_bytes(each)) for epoch in epochs for each in epoch.read_sets.values())
    runs_again = max(1, len(again))
    return {
        "transactions": count,
        "run again, share": len(again) / max(1, count),
        "messages of a first run": sum(sent.values()) / max(1, count),
        "messages that a rerun without cache would send": sum(sent[tid] for tid in again) / runs_again,
        "after each other": sum(rounds.get(tid, 0) for tid in again) / runs_again,
        "messages of a rerun here": of_reruns / runs_again,
        "bytes of read-set snapshots for a rerun here": logged / runs_again,
    }


def _ledger(log: Log, program: Program, sequencers: int) -> Ledger:
    ledger = Ledger(program, sequencers)

    def fold(chunk: FetchedRecords) -> None:
        for value in chunk.values:
            ledger.apply(value)

    each_chunk(log, TransactionTopics(program.name).epochs, 0, fold)
    return ledger


def _calls(log: Log, program: Program, epochs: list[Epoch]) -> Iterator[Calls]:
    """Each record of calls and results once, whether it travelled by itself or in its mark."""
    found: dict[tuple[int, int, int, int], Calls] = {}

    def take(to: int, message: object) -> None:
        if isinstance(message, Calls):
            found[message.source, message.epoch, message.round, to] = message

    for epoch in epochs:
        for barrier in (
            barrier for of_round in epoch.barriers.values() for barrier in of_round.values() if barrier.inline
        ):
            for to, data in barrier.sends:
                take(to, call_message(data))
    for to in range(program.partitions):
        for message in _whole_records(log, TransactionTopics(program.name).calls, to):
            take(to, message)
    yield from found.values()


def _whole_records(log: Log, topic: str, partition: int) -> Iterator[object]:
    pieces, values = RecordPieces(), list[bytes]()
    each_chunk(log, topic, partition, lambda chunk: values.extend(chunk.values))
    for value in values:
        try:
            message = call_message(value)
            whole = pieces.take(message) if isinstance(message, RecordPiece) else None
            yield message if whole is None else call_message(whole)
        except BadRecord:
            continue
