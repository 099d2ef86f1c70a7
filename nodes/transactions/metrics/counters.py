"""Counters beside the work of a transactional node: at the end of a turn, once an epoch, once a batch of the log.

Two rules for this file: nothing is done for a single transaction; nothing here may change what the node does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from holon.columnar.payloads import size_of
from nodes.log.contract import FetchedRecords, Log
from nodes.metrics.counters import CountingLog, DurationHistogram, Meter
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.topics import TransactionTopics

ROUND_BOUNDS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 32.0)


@dataclass(slots=True)
class Traffic:
    """Of one topic in one direction."""

    records: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class TransactionMeter:
    """``plain`` is what every kind of node counts. ``read`` and ``sent``: by topic. Times: ``time.monotonic``."""

    plain: Meter = field(default_factory=Meter)
    read: dict[str, Traffic] = field(default_factory=dict)
    sent: dict[str, Traffic] = field(default_factory=dict)
    requests_through_ms: dict[int, int] = field(default_factory=dict)  # by request partition, on the log's clock
    epochs: int = 0
    rounds: DurationHistogram = field(default_factory=lambda: DurationHistogram(ROUND_BOUNDS))
    epoch_durations: DurationHistogram = field(default_factory=DurationHistogram)
    opened_s: dict[int, float] = field(default_factory=dict)
    """Epochs in work, by number: since when this node knows of them."""
    _done: int | None = None
    _position: int = -1

    def turn(self, driver: TransactionDriver) -> None:
        """After every turn of the loop."""
        now_s = self.plain.turned_s = time.monotonic()
        ledger = driver.node.ledger
        if ledger.position == self._position:
            return
        self._position = ledger.position
        if self._done is None or ledger.done < self._done:  # it has just begun, or begins anew
            self._done = driver.steps.begun
            self.opened_s.clear()
        for number in range(self._done + 1, ledger.done + 1):
            self.epochs += 1
            self.epoch_durations.observe(now_s - self.opened_s.pop(number, now_s))
            rounds = ledger.epoch(number).last_round
            if rounds is not None:
                self.rounds.observe(rounds)
        self._done = ledger.done
        for number in (ledger.done + 1, ledger.done + 2):
            if ledger.is_open(number):
                self.opened_s.setdefault(number, now_s)


class MeteredTransactionLog(CountingLog):
    """The log of a transactional node, by topic."""

    def __init__(self, log: Log, topics: TransactionTopics, meter: TransactionMeter) -> None:
        super().__init__(log, meter.plain)
        self._traffic = meter
        self._requests = topics.requests

    def _counted(self, topic: str, partition: int, chunk: FetchedRecords) -> FetchedRecords:
        if chunk.values:
            _count(self._traffic.read, topic, len(chunk), size_of(chunk.values))
            if topic == self._requests:
                self._traffic.requests_through_ms[partition] = int(chunk.timestamps_ms[-1])
        return chunk

    def _sends(self, topic: str, values: Sequence[bytes]) -> None:
        _count(self._traffic.sent, topic, len(values), sum(map(len, values)))


def _count(by_topic: dict[str, Traffic], topic: str, records: int, size_bytes: int) -> None:
    traffic = by_topic.get(topic)
    if traffic is None:
        traffic = by_topic[topic] = Traffic()
    traffic.records += records
    traffic.size_bytes += size_bytes
