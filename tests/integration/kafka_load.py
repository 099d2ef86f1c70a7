"""A writer and a deduplicating reader of one topic, under way while something happens to its brokers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np

from holon.columnar.loops import install
from holon.columnar.payloads import BinaryColumn
from holon.outputs.deduplicator import Deduplicator
from holon.outputs.identity import OutputId, Track
from nodes.compiled import loading as compiled
from nodes.log import LogError, LogInterrupted, LogUnavailable, TopicPartition
from nodes.log.kafka.log import KafkaLog
from tests.integration.processes import until

DIRECT = {"holon.reader": "direct", "holon.writer": "direct"}
CONFLUENT = {"holon.reader": "librdkafka", "holon.writer": "librdkafka", "socket.timeout.ms": "10000"}
"""By its default it waits 60 s for a broker that stands still."""
IMPLEMENTATIONS: Mapping[str, Mapping[str, str]] = {"direct": DIRECT, "confluent": CONFLUENT}
PATIENCE_S = 240.0
"""For what may be only slow: longer than ``until`` waits, so that no writer gives up before its test does."""
_MOST_UNACKNOWLEDGED = 3_000
_PAUSE_S = 0.02
"""Between two looks: enough records for each fault to meet some, and time left for the brokers to come back."""
_JOB = "load"


def open_columns(bootstrap: str, properties: Mapping[str, str], timeout_s: float = PATIENCE_S) -> KafkaLog:
    """A log as nodes that work on columns open it."""
    log = KafkaLog(bootstrap, properties, timeout_s=timeout_s, connect_timeout_s=timeout_s)
    assert compiled.ensure(), "numba is part of the development environment"
    assert log.use_columns()
    install(None)  # the log keeps them; other tests of this process do without
    return log


class Load:
    """One writer and one reader, each in a thread with a log of its own; what fails there fails ``check``.

    A writer whose log is interrupted does what a node does. It goes on from the last acknowledged record, on a log
    opened again, so that repeated records have the identities that they had. ``starts`` counts its logs.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, properties: Mapping[str, str], seed: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acknowledged = [0] * partitions  # records: 0, 1, 2 ... of each partition
        self.ends = [0] * partitions
        self.given: list[list[int]] = [[] for _ in range(partitions)]
        self.duplicates = 0
        self.acknowledged_bytes = 0
        self.starts = 0
        self.problems: list[BaseException] = []
        self._bootstrap = bootstrap
        self._properties = dict(properties)
        self._rng = random.Random(seed)
        self._over = threading.Event()
        self._read_all = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__)
            for work in (self._write, self._read)
        ]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # the thread's end is the test's failure
            self.problems.append(error)

    @contextmanager
    def running(self) -> Iterator[Load]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._read_all.set()
            for thread in self._threads:
                thread.join()

    # --- the writer --------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while not self._over.is_set():
            self.starts += 1
            try:
                with open_columns(self._bootstrap, self._properties) as log:
                    self._send_on(log)
            except (LogInterrupted, LogUnavailable):
                continue

    def _send_on(self, log: KafkaLog) -> None:
        sent = list(self.acknowledged)
        while not self._over.is_set():
            with log.batched():
                for partition in range(self.partitions):
                    if sent[partition] - self.acknowledged[partition] < _MOST_UNACKNOWLEDGED:
                        sent[partition] += self._send_some(log, partition, sent[partition])
            log.poll_acks()
            time.sleep(_PAUSE_S)
        log.poll_acks(wait=True)

    def _send_some(self, log: KafkaLog, partition: int, first: int) -> int:
        """Few at a time as a list, or many as columns: they are written in two ways."""
        count = self._rng.choice((1, 5, 20, 60))
        rows = range(first, first + count)
        values = [b"%d:%d:" % (partition, row) + b"x" * (row % 97) for row in rows]
        headers = [OutputId(_JOB, 1, partition, Track.RECORD, row, 0).to_bytes() for row in rows]
        size = sum(map(len, values))
        given = BinaryColumn.of(values) if count > 16 else values
        log.send(
            self.topic, partition, given, headers=headers, done=partial(self._arrived, partition, first + count, size)
        )
        return count

    def _arrived(self, partition: int, count: int, size: int, end: int) -> None:
        assert count > self.acknowledged[partition], "acknowledged twice, or out of order"
        assert end > self.ends[partition], "acknowledged at an offset that was another's"
        self.acknowledged[partition], self.ends[partition] = count, end
        self.acknowledged_bytes += size

    # --- the reader --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        seen = [Deduplicator() for _ in range(self.partitions)]
        positions = {TopicPartition(self.topic, partition): 0 for partition in range(self.partitions)}
        with open_columns(self._bootstrap, self._properties) as log:
            while not self._read_all.is_set():
                for where in list(positions):
                    chunk = log.poll(*where, positions[where])
                    positions[where] = chunk.next_offset
                    self._take(where.partition, list(chunk.values), chunk.headers, chunk.offsets, seen[where.partition])
                log.wait(positions, 0.05)

    def _take(
        self, partition: int, values: list[bytes], headers: list[bytes], offsets: np.ndarray, seen: Deduplicator
    ) -> None:
        assert (np.diff(offsets) > 0).all()
        for value, header in zip(values, headers, strict=True):
            identity = OutputId.from_bytes(header)
            if not seen.is_new(partition, identity):
                self.duplicates += 1
                continue
            its_partition, row, _ = value.split(b":")
            assert (int(its_partition), int(row)) == (partition, identity.position)
            self.given[partition].append(identity.position)

    # --- what is demanded --------------------------------------------------------------------------------------------

    def goes_on(self, records: int = 400) -> None:
        """Until so many more are acknowledged, and read, of each partition."""
        wanted = [count + records for count in self.acknowledged]
        until(
            lambda: self._reached(self.acknowledged, wanted), f"{self.topic} is written: {self.acknowledged} {wanted}"
        )
        wanted = list(self.acknowledged)
        until(lambda: self._reached([len(rows) for rows in self.given], wanted), f"{self.topic} is read")

    def _reached(self, counts: list[int], wanted: list[int]) -> bool:
        self.raise_problems()
        return all(count >= want for count, want in zip(counts, wanted, strict=True))

    def raise_problems(self) -> None:
        for problem in self.problems:
            raise problem

    def check(self, *, starts: int = 1) -> None:
        """End writing; all that was acknowledged is given once and in order."""
        self._over.set()
        self._threads[0].join()
        self.raise_problems()
        until(
            lambda: self._reached([len(rows) for rows in self.given], self.acknowledged), f"all of {self.topic} is read"
        )
        self._read_all.set()
        self._threads[1].join()
        self.raise_problems()
        assert self.starts <= starts, f"the writer began anew {self.starts - 1} times"
        for partition, rows in enumerate(self.given):
            assert rows == list(range(len(rows))), f"partition {partition}: out of order, lost or twice"
            assert len(rows) >= self.acknowledged[partition]
        assert self.duplicates == 0 or self.starts > 1, f"{self.duplicates} records lie there twice"


def is_truncation(error: LogError) -> bool:
    """Whether the error names that acknowledged records are gone."""
    return type(error).__name__ == "LogTruncated"
