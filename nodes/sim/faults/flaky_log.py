"""The shared log as one node meets it: appends that fail or are overtaken, reads that are cut, stale or disturbed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from nodes.log.checks import out_of_range
from nodes.log.contract import Appended, FetchedRecords, Log, LogInterrupted, LogTruncated, Record, TopicPartition
from nodes.sim.faults.lost_writes import Parcel, Transit


class Meddler(Protocol):
    """The part that decides what goes wrong, and when."""

    def posts(self, topic: str) -> bool: ...

    def arrives(self, to: TopicPartition, queue: Sequence[Parcel], wait: bool) -> int: ...

    def now_ms(self) -> int: ...

    def before_append(self, topic: str, partition: int, values: Sequence[bytes], headers: Sequence[bytes]) -> bool: ...

    def rotted(self, topic: str, values: Sequence[bytes]) -> Sequence[bytes]: ...

    def after_append(self, topic: str, partition: int, done: Appended) -> None: ...

    def max_records(self, topic: str, wanted: int) -> int: ...

    def visible_end(self, topic: str, partition: int) -> int | None: ...

    def disturbed(self, topic: str, partition: int, values: Sequence[bytes]) -> Sequence[bytes]: ...

    def after_read(self, topic: str) -> None: ...

    def deleted(self, topic: str, partition: int, offset: int) -> None: ...


class NodeLog(Log):
    """Passes everything on to ``log``; the meddler may raise, run other nodes meanwhile, or change what is read.

    Records that nodes delete are ``trimmed``, for all of them; the log keeps it for the checks after the run.
    """

    def __init__(self, log: Log, meddler: Meddler, trimmed: dict[tuple[str, int], int]) -> None:
        self._log = log
        self._meddler = meddler
        self.transit = Transit()
        self._trimmed = trimmed
        self._reached: dict[TopicPartition, int] = {}
        self._cut: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        self._sequence_lost: set[TopicPartition] = set()

    def was_cut(self, where: TopicPartition, end: int, *, knows_sequences: bool) -> None:
        """The broker has lost what was there from ``end`` on. A reader beyond it gets an error, as by leaders' epochs.

        So does a writer whose acknowledged records were lost, where the broker ``knows_sequences`` of its producers.
        """
        if self._reached.get(where, 0) > end:
            self._cut[where] = end
        if knows_sequences and self._written.get(where, 0) > end:
            self._sequence_lost.add(where)

    def _check_truncated(self, where: TopicPartition, offset: int) -> None:
        end = self._cut.pop(where, None)
        if end is not None and offset > end and offset == self._reached[where]:
            raise LogTruncated(f"{where.topic}[{where.partition}] was cut off at {end}, before offset {offset}")

    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        self._log.create_topic(topic, partitions, retention_ms=retention_ms)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._log.add_partitions(topic, partitions)

    def topics(self) -> dict[str, int]:
        return self._log.topics()

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        return self._append(topic, partition, values, headers, keys, lambda: None)

    def append_records(self, topic: str, partition: int, records: Sequence[Record]) -> Appended:
        return self._log.append_records(topic, partition, records)

    def use_record_parts(self, topic: str, headers: Collection[str]) -> None:
        self._log.use_record_parts(topic, headers)

    def _append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        arrived: Callable[[], object],
    ) -> Appended:
        """``arrived`` is called once it is no longer on its way: the node may be killed before that, or after."""
        where = TopicPartition(topic, partition)
        if where in self._sequence_lost:
            raise LogInterrupted(f"{topic}[{partition}]: the broker has lost what came before this in the sequence")
        if not self._meddler.before_append(topic, partition, values, headers or [b""] * len(values)):
            arrived()
            return Appended(self._log.end_offset(topic, partition), len(values), 0)
        values = self._meddler.rotted(topic, values)
        done = self._log.append(topic, partition, values, headers=headers, keys=keys)
        self._written[where] = done.first_offset + done.count
        arrived()
        self._meddler.after_append(topic, partition, done)
        return done

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
        if not self._meddler.posts(topic):
            super().send(topic, partition, values, headers=headers, keys=keys, done=done)
            return
        self.transit.add(TopicPartition(topic, partition), Parcel(values, headers, keys, done, self._meddler.now_ms()))

    def poll_acks(self, *, wait: bool = False) -> None:
        for to, queue in self.transit.waiting():
            for _ in range(self._meddler.arrives(to, queue, wait)):
                parcel = queue[0]
                done = self._append(*to, parcel.values, parcel.headers, parcel.keys, queue.popleft)
                parcel.done(done.first_offset + done.count)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        chunk = self._read(topic, partition, offset, max_records, max_bytes)
        self._reached[TopicPartition(topic, partition)] = chunk.next_offset
        return chunk

    def _read(self, topic: str, partition: int, offset: int, max_records: int, max_bytes: int) -> FetchedRecords:
        if self._cut:
            self._check_truncated(TopicPartition(topic, partition), offset)
        limit = self._meddler.max_records(topic, max_records)
        end = self._meddler.visible_end(topic, partition)
        if end is not None:
            limit = min(limit, end - offset)
            if limit <= 0:
                return _nothing(offset)
        if offset < (start := self._trimmed.get((topic, partition), 0)):
            raise out_of_range(f"topic {topic!r} partition {partition}", offset, start, offset)
        if offset == self._log.end_offset(topic, partition):
            self._meddler.after_read(topic)
            return _nothing(offset)  # what nearly every read of a simulation finds
        chunk = self._log.read(topic, partition, offset, max_records=limit, max_bytes=max_bytes)
        self._meddler.after_read(topic)
        values = self._meddler.disturbed(topic, partition, chunk.values) if chunk.values else chunk.values
        if values is chunk.values:
            return chunk
        count = len(values)
        offsets = np.arange(offset, offset + count, dtype=np.int64)
        return FetchedRecords(offsets, np.zeros(count, np.int64), values, [b""] * count, None, chunk.next_offset)

    def start_offset(self, topic: str, partition: int) -> int:
        return max(self._log.start_offset(topic, partition), self._trimmed.get((topic, partition), 0))

    def end_offset(self, topic: str, partition: int) -> int:
        """Always the true one: the partition's leader returns it, or there is no answer."""
        return self._log.end_offset(topic, partition)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        return self._log.wait(positions, timeout_s)

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        assert offset <= self._log.end_offset(topic, partition)
        self._meddler.deleted(topic, partition, offset)
        start = self._trimmed[topic, partition] = max(offset, self._trimmed.get((topic, partition), 0))
        return start

    def flush(self) -> None:
        self._log.flush()

    def close(self) -> None:
        """The log is everybody's; it stays open."""


_NO_NUMBERS = np.empty(0, np.int64)


def _nothing(offset: int) -> FetchedRecords:
    return FetchedRecords(_NO_NUMBERS, _NO_NUMBERS, [], [], None, offset)
