"""Counters beside the work of a transactional node: at the end of a turn, once an epoch, once a batch of the log.

Two rules for this file: nothing is done for a single transaction; nothing here may change what the node does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holon.columnar.payloads import size_of
from nodes.log.contract import Chunk, Log
from nodes.meter import Histogram, Meter
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
    rounds: Histogram = field(default_factory=lambda: Histogram(ROUND_BOUNDS))
    epoch_durations: Histogram = field(default_factory=Histogram)
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
            self._done = driver.begun
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


class MeteredTransactionLog:
    """A node's log with its reads and appends counted by topic; everything else is the log's own."""

    def __init__(self, log: Log, topics: TransactionTopics, meter: TransactionMeter) -> None:
        self._log = log
        self._meter = meter
        self._requests = topics.requests

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> Chunk:
        """As ``Log.read``."""
        chunk = self._log.read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)
        return self._counted(topic, partition, chunk) if chunk.values else chunk

    def follow(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> Chunk:
        """As ``Log.follow``."""
        chunk = self._log.follow(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)
        return self._counted(topic, partition, chunk) if chunk.values else chunk

    def _counted(self, topic: str, partition: int, chunk: Chunk) -> Chunk:
        _count(self._meter.read, topic, len(chunk), size_of(chunk.values))
        if topic == self._requests:
            self._meter.requests_through_ms[partition] = int(chunk.timestamps_ms[-1])
        return chunk

    def send(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
        done: Callable[[int], None] = lambda end: None,
    ) -> None:
        """As ``Log.send``."""
        meter = self._meter.plain
        _count(self._meter.sent, topic, len(values), sum(map(len, values)))
        meter.in_flight += 1
        began_s = time.monotonic()

        def delivered(end: int) -> None:
            meter.in_flight -= 1
            meter.answered_s = time.monotonic()
            done(end)

        try:
            self._log.send(topic, partition, values, headers=headers, keys=keys, done=delivered)
        finally:
            meter.blocked_s += time.monotonic() - began_s


def _count(by_topic: dict[str, Traffic], topic: str, records: int, size_bytes: int) -> None:
    traffic = by_topic.get(topic)
    if traffic is None:
        traffic = by_topic[topic] = Traffic()
    traffic.records += records
    traffic.size_bytes += size_bytes
