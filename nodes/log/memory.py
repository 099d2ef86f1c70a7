"""The log in memory: the same contract for one process and one thread, deterministic, for simulation and tests."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from holon.columnar.record_parts import RecordParts
from nodes.log.checks import (
    check_batch,
    check_more_partitions,
    check_new_topic,
    check_records,
    check_same_partitions,
    out_of_range,
)
from nodes.log.contract import (
    MAX_RECORD_BYTES,
    Appended,
    FetchedRecords,
    Log,
    LogError,
    Record,
    TopicPartition,
    UnknownTopic,
)


@dataclass(slots=True)
class _Records:
    """One partition, from offset ``start`` on."""

    start: int = 0
    timestamps_ms: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    last_ms: int = 0
    special: dict[int, Record] = field(default_factory=dict)
    """By offset, those that are null or have headers with names."""

    @property
    def end(self) -> int:
        return self.start + len(self.values)

    def drop(self, count: int) -> None:
        for column in (self.timestamps_ms, self.values, self.headers, self.keys):
            del column[:count]
        self.start += count
        for offset in [offset for offset in self.special if offset < self.start]:
            del self.special[offset]

    def cut(self, end: int) -> None:
        for column in (self.timestamps_ms, self.values, self.headers, self.keys):
            del column[end - self.start :]
        for offset in [offset for offset in self.special if offset >= end]:
            del self.special[offset]

    def parts(self, first: int, last: int, names: Collection[str]) -> RecordParts | None:
        """Of the rows from one to below another."""
        keys = self.keys[first:last]
        found = [self.special.get(offset) for offset in range(self.start + first, self.start + last)]
        if not any(found) and all(key is None for key in keys):
            return None
        headers = {name: [None if one is None else one.headers.get(name) for one in found] for name in names}
        nulls = np.array([one is not None and one.value is None for one in found], np.bool_)
        return RecordParts(keys, headers, nulls)


class MemoryLog(Log):
    """Topics in memory. Belongs to one thread.

    ``clock_ms`` gives log timestamps; without one they stay 0, so that runs are alike. ``on_wait`` is called once by a
    ``wait`` that finds nothing, with the seconds it may take: a simulation moves its clock and delivers there. No other
    process can append meanwhile, so ``wait`` never sleeps.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int] = lambda: 0,
        on_wait: Callable[[float], None] | None = None,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self._clock_ms = clock_ms
        self._on_wait = on_wait
        self._max_record_bytes = max_record_bytes
        self._topics: dict[str, list[_Records]] = {}
        self._retention_ms: dict[str, int | None] = {}
        self._closed = False
        self._requested_headers: dict[str, Collection[str]] = {}

    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        self._check()
        check_new_topic(topic, partitions, retention_ms)
        known = self._topics.get(topic)
        if known is not None:
            check_same_partitions(topic, len(known), partitions)
            return
        self._topics[topic] = [_Records() for _ in range(partitions)]
        self._retention_ms[topic] = retention_ms

    def add_partitions(self, topic: str, partitions: int) -> None:
        if check_more_partitions(topic, self.partitions(topic), partitions):
            known = self._topics[topic]
            known += [_Records() for _ in range(partitions - len(known))]

    def topics(self) -> dict[str, int]:
        self._check()
        return {topic: len(self._topics[topic]) for topic in sorted(self._topics)}

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        records = self._records(topic, partition)
        check_batch(values, headers, keys, self._max_record_bytes, f"topic {topic!r} partition {partition}")
        timestamp_ms, first, count = max(records.last_ms, self._clock_ms()), records.end, len(values)
        if count:
            records.last_ms = timestamp_ms
            records.timestamps_ms.extend([timestamp_ms] * count)
            records.values.extend(values)
            records.headers.extend(headers if headers is not None else [b""] * count)
            records.keys.extend(keys if keys is not None else [None] * count)
            self._expire(topic, records, count)
        return Appended(first, count, timestamp_ms)

    def append_records(self, topic: str, partition: int, records: Sequence[Record]) -> Appended:
        check_records(records, self._max_record_bytes, f"topic {topic!r} partition {partition}")
        rows = [record.value or b"" for record in records]
        done = self.append(topic, partition, rows, keys=[record.key for record in records])
        special = self._records(topic, partition).special
        for offset, record in enumerate(records, done.first_offset):
            if record.value is None or record.headers:
                special[offset] = record
        return done

    def use_record_parts(self, topic: str, headers: Collection[str]) -> None:
        self._requested_headers[topic] = headers

    def max_record_bytes(self, topic: str) -> int:
        return self._max_record_bytes

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        records = self._records(topic, partition)
        if not records.start <= offset <= records.end:
            raise out_of_range(f"topic {topic!r} partition {partition}", offset, records.start, records.end)
        first = offset - records.start
        last = min(first + max(max_records, 1), len(records.values))
        size = 0
        for at in range(first, last):
            size += len(records.values[at]) + len(records.headers[at]) + len(records.keys[at] or b"")
            if size > max_bytes and at > first:
                last = at
                break
        keys = records.keys[first:last]
        next_offset = records.start + last
        names = self._requested_headers.get(topic)
        return FetchedRecords(
            offsets=np.arange(offset, next_offset, dtype=np.int64),
            timestamps_ms=np.array(records.timestamps_ms[first:last], np.int64),
            values=records.values[first:last],
            headers=records.headers[first:last],
            keys=keys if any(key is not None for key in keys) else None,
            next_offset=next_offset,
            parts=None if names is None else records.parts(first, last, names),
        )

    def start_offset(self, topic: str, partition: int) -> int:
        return self._records(topic, partition).start

    def end_offset(self, topic: str, partition: int) -> int:
        return self._records(topic, partition).end

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        ready = self._ready(positions)
        if not ready and self._on_wait is not None:
            self._on_wait(timeout_s)
            ready = self._ready(positions)
        return ready

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        records = self._records(topic, partition)
        if offset > records.end:
            raise out_of_range(f"topic {topic!r} partition {partition}", offset, records.start, records.end)
        records.drop(max(offset - records.start, 0))
        return records.start

    def truncate(self, topic: str, partition: int, end: int) -> int:
        """Lose what was acknowledged from ``end`` on, as a broker may; for simulations. Returns the new end."""
        records = self._records(topic, partition)
        if records.start <= end < records.end:
            records.cut(end)
        return records.end

    def flush(self) -> None:
        self._check()

    def close(self) -> None:
        self._closed = True

    def _ready(self, positions: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        return [where for where, position in positions.items() if self._records(*where).end > position]

    def _expire(self, topic: str, records: _Records, appended: int) -> None:
        """Like the embedded log: at an append, by the time of the append, never the newest batch."""
        retention_ms = self._retention_ms[topic]
        if retention_ms is not None:
            old = bisect_left(records.timestamps_ms, records.last_ms - retention_ms)
            records.drop(min(old, len(records.values) - appended))

    def _records(self, topic: str, partition: int) -> _Records:
        self._check()
        found = self._topics.get(topic)
        count = self.partitions(topic) if found is None else len(found)  # partitions() raises, with the nearest names
        if found is None or not 0 <= partition < count:
            raise UnknownTopic(f"topic {topic!r} has no partition {partition}; it has 0 to {count - 1}")
        return found[partition]

    def _check(self) -> None:
        if self._closed:
            raise LogError("the log in memory is closed; open another")
