"""How hot keys and partitions are, by the newest commits on the log: nodes count nothing for it.

Rules for this file. Nothing is written, and nodes may be at work. All partitions are compared over the same epochs.
Calls within a transaction are seen by their writes alone: an entity that is only read by others has no heat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from nodes.log.contract import Log, OffsetOutOfRange
from nodes.transactions.layouts.halves import Bucket
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.messages import BadRecord, Commit, RecordPiece, commit_message
from transactional.epochs.pieces import RecordPieces
from transactional.layout import Group, Layout
from transactional.requests.replies import entity_of

RECENT_RECORDS = 2_000
"""Of one partition: a record holds an epoch. With an epoch each 10 ms these are 20 s."""
RECENT_BYTES = 16 << 20
_SAMPLE = 50
BYTES_A_CALL = 1_024
"""Bytes that are written are as much heat as one call: measured (docs/design/migration.md)."""


class Work(msgspec.Struct):
    """``calls``: requests of these keys; ``bytes``: keys and values that epochs have written."""

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

    def by_partition(self, layout: Layout) -> list[Work]:
        """Of all partitions of the layout: keys count where they live now."""
        found = [Work() for _ in range(layout.partitions)]
        for bucket, work in self.by_bucket(layout).items():
            found[layout.groups[bucket.place].homes[bucket.number]].add(work)
        return found


class _Commits(NamedTuple):
    """Of one partition, by epoch. ``from_epoch``: commits of earlier epochs were not read."""

    by_epoch: dict[int, tuple[Commit, int]]
    from_epoch: int


def recent(
    log: Log, topics: TransactionTopics, layout: Layout, operators: Mapping[str, Group], records: int = RECENT_RECORDS
) -> Recent:
    """The work of the newest epochs. Operators that are not named have none."""
    read = [_newest(log, topics.commits, partition, records) for partition in range(log.partitions(topics.commits))]
    first = max((each.from_epoch for each in read), default=0)
    places = {each.group: place for place, each in enumerate(layout.groups)}
    named = {name: (places[group], group.colocate) for name, group in operators.items() if group in places}
    by_part: dict[KeyPart, Work] = {}
    found = [each for commits in read for each in commits.by_epoch.values() if each[0].epoch >= first]
    for commit, _ in found:
        for operator, key, work in _work(commit):
            if (known := named.get(operator)) is not None:
                place, colocate = known
                part = KeyPart(place, key if colocate is None else key.split(colocate, 1)[0])
                by_part.setdefault(part, Work()).add(work)
    epochs, times = [each.epoch for each, _ in found], [at_ms for _, at_ms in found]
    seconds = (max(times) - min(times)) / 1000 if times else 0.0
    return Recent(min(epochs, default=0), max(epochs, default=0), seconds, by_part)


def _work(commit: Commit) -> Iterator[tuple[str, str, Work]]:
    for call in commit.calls:
        if (entity := entity_of(call)) is not None:
            yield *entity, Work(calls=1)
    for operator, key, value in commit.writes:
        yield operator, key, Work(bytes=len(key) + len(value or b""))


def _newest(log: Log, topic: str, partition: int, records: int) -> _Commits:
    """The first commit of an epoch counts, as for the next owner."""
    oldest, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    sample = [value for _, value in _read(log, topic, partition, max(oldest, end - _SAMPLE), end)]
    mean = max(1, sum(map(len, sample)) // max(1, len(sample)))
    start = max(oldest, end - min(records, max(_SAMPLE, RECENT_BYTES // mean)))
    found: dict[int, tuple[Commit, int]] = {}
    pieces = RecordPieces()
    for at_ms, value in _read(log, topic, partition, start, end):
        try:
            message = commit_message(value)
            if isinstance(message, RecordPiece):
                whole = pieces.take(message)
                message = message if whole is None else commit_message(whole)
        except (BadRecord, ValueError):
            continue
        if isinstance(message, Commit) and message.partition == partition:
            found.setdefault(message.epoch, (message, at_ms))
    return _Commits(found, min(found, default=0) if start > oldest else 0)


def _read(log: Log, topic: str, partition: int, offset: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Append time in ms, and value."""
    while offset < end:
        try:
            chunk = log.read(topic, partition, offset)
        except OffsetOutOfRange:  # nodes have trimmed the topic meanwhile
            offset = max(offset + 1, log.start_offset(topic, partition))
            continue
        yield from zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True)
        offset = max(chunk.next_offset, offset + 1)


def _sum(works: Iterable[Work]) -> Work:
    total = Work()
    for work in works:
        total.add(work)
    return total
