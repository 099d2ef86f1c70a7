"""How hot keys and partitions are, by the newest commits and calls on the log: nodes count nothing for it.

Rules for this file. Nothing is written, and nodes may be at work. All partitions are compared over the same epochs.
Calls between entities of one partition are on no topic, and are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from nodes.log.contract import FetchedRecords, Log, OffsetOutOfRange
from nodes.transactions.layouts.halves import Bucket
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.messages import (
    BadRecord,
    Calls,
    Commit,
    RecordPiece,
    RoundBarrier,
    WireCall,
    call_message,
    commit_message,
    epoch_message,
    epoch_messages,
)
from transactional.epochs.pieces import RecordPieces
from transactional.layout import Group, Layout
from transactional.requests.replies import entity_of

T = TypeVar("T")
RECENT_RECORDS = 2_000
"""Of one partition: a record holds an epoch. With an epoch each 10 ms these are 20 s."""
EPOCH_RECORDS = 8
"""So many times as many records of the epochs topic are read: nodes write several for each epoch."""
RECENT_BYTES = 16 << 20
_SAMPLE = 50
BYTES_A_CALL = 1_024
"""Bytes that are written are as much heat as one call: measured (docs/design/migration.md)."""


class Work(msgspec.Struct):
    """``calls``: requests of these keys, and calls from other partitions; ``bytes``: keys and values written."""

    calls: int = 0
    bytes: int = 0

    @property
    def heat(self) -> int:
        """In bytes, of which a call is worth some."""
        return self.calls * BYTES_A_CALL + self.bytes

    def add(self, other: Work) -> None:
        self.calls += other.calls
        self.bytes += other.bytes


class KeyPart(NamedTuple):
    """The first part of keys, which decides where they live. ``place``: of the operators in ``Layout.groups``."""

    place: int
    part: str


class Recent(NamedTuple):
    """Work of the epochs from the first to the last of these; 0: there was none. ``seconds``: between their commits."""

    first_epoch: int
    last_epoch: int
    seconds: float
    by_part: dict[KeyPart, Work]

    @property
    def total(self) -> Work:
        return _sum(self.by_part.values())

    def by_bucket(self, layout: Layout) -> dict[Bucket, Work]:
        """Of buckets that have some."""
        found: dict[Bucket, Work] = {}
        for each, work in self.by_part.items():
            bucket = Bucket(each.place, layout.groups[each.place].group.bucket(each.part))
            found.setdefault(bucket, Work()).add(work)
        return found

    def heats(self, layout: Layout) -> dict[Bucket, int]:
        """Of buckets that have some."""
        return {bucket: work.heat for bucket, work in self.by_bucket(layout).items()}

    def by_partition(self, layout: Layout) -> list[Work]:
        """Of all partitions of the layout: keys count where they live now."""
        found = [Work() for _ in range(layout.partitions)]
        for bucket, work in self.by_bucket(layout).items():
            found[layout.groups[bucket.place].homes[bucket.number]].add(work)
        return found


_Decoded: TypeAlias = Iterator[tuple[int, tuple[int, ...], Commit | Calls]]
"""Epoch and slot of each message of a record."""


class _Window(NamedTuple):
    """The messages that were read of one topic partition, by epoch; before ``from_epoch`` perhaps not all."""

    found: dict[int, list[_Stamped]]
    from_epoch: int


class _Stamped(NamedTuple):
    """A message and its append time. ``slot``: of two with the same one the first counts."""

    at_ms: int
    slot: tuple[int, ...]
    message: Commit | Calls


def recent(
    log: Log,
    topics: TransactionTopics,
    layout: Layout,
    operators: Mapping[str, Group],
    records: int = RECENT_RECORDS,
    complete_from: int = 0,
) -> Recent:
    """The work of the newest epochs. Operators that are not named have none.

    ``complete_from``: commits and calls of earlier epochs may have been trimmed in some partitions, and not in others.
    """
    read = [_read_commits(log, topics, partition, records) for partition in range(log.partitions(topics.commits))]
    read += [_read_calls(log, topics, partition, records) for partition in range(log.partitions(topics.calls))]
    read.append(_read_inline(log, topics, EPOCH_RECORDS * records))
    first = max([complete_from, *(each.from_epoch for each in read)])
    places = {each.group: place for place, each in enumerate(layout.groups)}
    named = {name: (places[group], group.colocate) for name, group in operators.items() if group in places}
    by_part: dict[KeyPart, Work] = {}
    slots: dict[tuple[int, ...], _Stamped] = {}
    for window in read:
        for epoch, found in window.found.items():
            if epoch >= first:
                for each in found:
                    slots.setdefault(each.slot, each)
    for each in slots.values():
        for operator, key, work in _work(each.message):
            if (known := named.get(operator)) is not None:
                place, colocate = known
                part = KeyPart(place, key if colocate is None else key.split(colocate, 1)[0])
                by_part.setdefault(part, Work()).add(work)
    epochs, times = [each.message.epoch for each in slots.values()], [each.at_ms for each in slots.values()]
    seconds = (max(times) - min(times)) / 1000 if times else 0.0
    return Recent(min(epochs, default=0), max(epochs, default=0), seconds, by_part)


def _work(message: Commit | Calls) -> Iterator[tuple[str, str, Work]]:
    if isinstance(message, Calls):
        for each in message.items:
            if isinstance(each, WireCall):
                yield each.operator, each.key, Work(calls=1)
        return
    for call in message.calls:
        if (entity := entity_of(call)) is not None:
            yield *entity, Work(calls=1)
    for operator, key, value in message.writes:
        yield operator, key, Work(bytes=len(key) + len(value or b""))


def _read_commits(log: Log, topics: TransactionTopics, partition: int, records: int) -> _Window:
    """The first commit of an epoch counts, as for the next owner."""

    def decoded(value: bytes, pieces: RecordPieces) -> _Decoded:
        message = whole(commit_message(value), pieces, commit_message)
        if isinstance(message, Commit) and message.partition == partition:
            yield message.epoch, (message.epoch, partition), message

    return _read(log, topics.commits, partition, records, decoded)


def _read_calls(log: Log, topics: TransactionTopics, partition: int, records: int) -> _Window:
    """Calls to a partition that were too long for barriers."""

    def decoded(value: bytes, pieces: RecordPieces) -> _Decoded:
        message = whole(call_message(value), pieces, call_message)
        if isinstance(message, Calls):
            yield message.epoch, _slot(message, partition), message

    return _read(log, topics.calls, partition, records, decoded)


def _read_inline(log: Log, topics: TransactionTopics, records: int) -> _Window:
    """Calls that travel in barriers."""

    def decoded(value: bytes, pieces: RecordPieces) -> _Decoded:
        for each in epoch_messages(value):
            message = whole(each, pieces, epoch_message)
            if isinstance(message, RoundBarrier) and message.inline:
                for to, record in message.sends:
                    if isinstance(calls := call_message(record), Calls):
                        yield calls.epoch, _slot(calls, to), calls

    return _read(log, topics.epochs, 0, records, decoded)


def _slot(calls: Calls, to: int) -> tuple[int, ...]:
    return calls.epoch, calls.source, calls.round, to


def _read(
    log: Log, topic: str, partition: int, records: int, decoded: Callable[[bytes, RecordPieces], _Decoded]
) -> _Window:
    """The newest records of a partition, as many as are allowed and not too long together."""
    oldest, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    sample = [value for _, value in _values(log, topic, partition, max(oldest, end - _SAMPLE), end)]
    mean = max(1, sum(map(len, sample)) // max(1, len(sample)))
    start = max(oldest, end - min(records, max(_SAMPLE, RECENT_BYTES // mean)))
    found: dict[int, list[_Stamped]] = {}
    pieces = RecordPieces()
    for at_ms, value in _values(log, topic, partition, start, end):
        try:
            for epoch, slot, message in decoded(value, pieces):
                found.setdefault(epoch, []).append(_Stamped(at_ms, slot, message))
        except BadRecord:
            continue
    # Of the first epoch in a part of a topic there may be more before it.
    return _Window(found, min(found, default=-1) + 1 if start > oldest else 0)


def chunks(log: Log, topic: str, partition: int, offset: int, end: int, most: int = 10_000) -> Iterator[FetchedRecords]:
    """The records up to ``end``, at most ``most`` at a time; those that nodes trim meanwhile are passed over."""
    while offset < end:
        try:
            chunk = log.read(topic, partition, offset, max_records=most)
        except OffsetOutOfRange:
            offset = max(offset + 1, log.start_offset(topic, partition))
            continue
        yield chunk
        offset = max(chunk.next_offset, offset + 1)


def whole(
    message: T | RecordPiece, pieces: RecordPieces, decode: Callable[[bytes], T | RecordPiece]
) -> T | RecordPiece:
    """The record that is whole with this piece; else ``message`` itself. Raises ``BadRecord``."""
    found = pieces.take(message) if isinstance(message, RecordPiece) else None
    return message if found is None else decode(found)


def _values(log: Log, topic: str, partition: int, offset: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Append time in ms, and value."""
    for chunk in chunks(log, topic, partition, offset, end):
        yield from zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True)


def _sum(works: Iterable[Work]) -> Work:
    total = Work()
    for work in works:
        total.add(work)
    return total
