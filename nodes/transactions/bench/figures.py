"""The figures of a run by its log: its epochs, and latencies by the append times of requests and replies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from nodes.log import Log
from nodes.log.contract import FetchedRecords
from nodes.transactions.bench.prepared import each_chunk
from nodes.transactions.control_history import control_history
from nodes.transactions.job_start import started
from nodes.transactions.topics import TransactionTopics
from nodes.transactions.upgrades.programs import loaded_version, version_record
from transactional.describing import version_of
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import BadRecord, reply_message
from transactional.operators import Program
from transactional.program_versions import KnownPrograms
from transactional.requests.requests import WireRequest

_requests = msgspec.json.Decoder(WireRequest | list[WireRequest])


def spread(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Average, quantiles and maximum."""
    ordered = sorted(latencies_ms)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    quantiles = {name: ordered[math.ceil(share * len(ordered)) - 1] for name, share in shares.items()}
    return {"avg": sum(ordered) / len(ordered), **quantiles, "max": ordered[-1]}


def counts(log: Log, program: Program, sequencers: int, first: int, last: int) -> dict[str, int]:
    """Epochs from ``first`` to ``last`` and what became of their transactions."""
    topics = TransactionTopics(program.name)
    ledger = Ledger(_programs(log, program, topics), sequencers)

    def fold(chunk: FetchedRecords) -> None:
        for value in chunk.values:
            ledger.apply(value)

    each_chunk(log, topics.epochs, 0, fold)
    done = [ledger.epoch(number) for number in range(first, last + 1)]
    decisions = [epoch.decision for epoch in done if epoch.decision is not None]
    outcomes = [epoch.outcome for epoch in done if epoch.outcome is not None]
    return {
        "epochs": len(done),
        "conflicts": sum(len(decision.rerun) for decision in decisions),
        "reruns": sum(len(outcome.outcomes) for outcome in outcomes),
        "postponed": sum(len(outcome.postponed) for outcome in outcomes),
    }


def _programs(log: Log, program: Program, topics: TransactionTopics) -> KnownPrograms:
    """All versions that have held."""
    begun = started(log, topics)
    holding = control_history(log, topics, 0 if begun is None else begun.partitions).read().programs.holding
    if not holding:
        return KnownPrograms(program)
    first = version_record(holding[0])
    return KnownPrograms(program, code=version_of(program).code, first=first, load=loaded_version)


class Replied:
    """The replies topic of a job, as a reader takes it. By request id: epoch, and append time in milliseconds."""

    def __init__(self, log: Log, program: Program) -> None:
        self.repeats = 0
        self.epochs: dict[str, int] = {}
        self.appended_ms: dict[str, int] = {}
        topic = TransactionTopics(program.name).replies
        for partition in range(log.partitions(topic)):
            self._last = (0, 0)
            each_chunk(log, topic, partition, self._take)

    def _take(self, chunk: FetchedRecords) -> None:
        for value, time_ms in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
            try:
                record = reply_message(value)
            except BadRecord:
                continue
            for n, reply in enumerate(record.replies, record.first):
                if (record.epoch, n) <= self._last:
                    self.repeats += 1
                    continue
                self._last = record.epoch, n
                self.epochs.setdefault(reply.id, record.epoch)
                self.appended_ms.setdefault(reply.id, time_ms)


def log_latencies_ms(log: Log, program: Program, replied: Replied, requests: Sequence[WireRequest]) -> list[float]:
    """From the append of a request's record to that of its reply's, by the log's own clock."""
    wanted, found = {request.id for request in requests}, dict[str, float]()

    def take(chunk: FetchedRecords) -> None:
        for value, time_ms in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
            wires = _requests.decode(value)
            for wire in wires if isinstance(wires, list) else [wires]:
                if wire.id in wanted:
                    found.setdefault(wire.id, float(replied.appended_ms[wire.id] - time_ms))

    topic = TransactionTopics(program.name).requests
    for partition in range(log.partitions(topic)):
        each_chunk(log, topic, partition, take)
    return list(found.values())
