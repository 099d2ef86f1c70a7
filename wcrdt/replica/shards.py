"""Shards: what all partitions add to the keys for which one partition answers.

Two rules for this file. A contribution and the delta that names it are the same prefix, by either way. A delta that
names no contribution to a shard says that nothing was added to its keys.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence

import msgspec

from wcrdt.replica.replica import Received, Replica, SlotDelta, StateShape
from wcrdt.replica.slots import Position, TrackDelta

_Span = tuple[Position, Position, int]
"""From, to, and the watermark there."""


class ShardedDelta(SlotDelta, frozen=True):
    """A delta, and what it leaves out: by shard, the changes of its keys since the last contribution for it.

    On the log they are apart. ``contributions`` of a maker follow each other; between them nothing has changed.
    """

    contributions: dict[int, TrackDelta] = msgspec.field(default_factory=dict)


class ShardReplica:
    """The slots of all partitions, of the keys of one shard alone.

    ``start_offsets``: where the partitions begin, so that nothing was added before.
    """

    def __init__(self, shapes: Mapping[str, StateShape], lateness_ms: int, start_offsets: Sequence[int]) -> None:
        self.replica = Replica(len(start_offsets), shapes, lateness_ms)
        self._start_offsets = tuple(start_offsets)
        self._passed: list[list[_Span]] = []
        self.reset()

    def reset(self) -> None:
        """Know nothing: all contributions are read from the first one on."""
        self.replica.reset()
        for slot, offset in zip(self.replica.slots, self._start_offsets, strict=True):
            slot.record.position = (offset, 0)
        self._passed = [[] for _ in self._start_offsets]

    def position(self, partition: int) -> Position:
        """Up to where nothing of the partition is missing here."""
        return self.replica.slots[partition].record.position

    def contribution(self, delta: SlotDelta) -> Received:
        """Take a contribution, or all that a partition has added. Raises ``DecodeError`` for malformed contents."""
        received = self.replica.receive(delta)
        self._go_on(delta.partition)
        return received

    def passed(self, partition: int, since: Position, to: Position, watermark_ms: int) -> None:
        """In this part of its input the partition has added nothing here."""
        if to > self.position(partition):
            spans = self._passed[partition]
            insort(spans, (since, to, watermark_ms))
            _join(spans)
            self._go_on(partition)

    def took(self, delta: SlotDelta, named: bool) -> None:
        """A delta was read; ``named``: there is a contribution for this shard with it."""
        record = delta.record
        if record is not None and not record.full and not named:
            self.passed(delta.partition, record.since, record.to, record.watermark_ms)

    def _go_on(self, partition: int) -> None:
        spans = self._passed[partition]
        while spans and spans[0][0] <= (have := self.position(partition)):
            since, to, watermark_ms = spans.pop(0)
            if to > have:
                empty = TrackDelta(since, to, watermark_ms, [])
                self.replica.receive(SlotDelta(partition, 0, empty, None))


def _join(spans: list[_Span]) -> None:
    """Spans that touch are one."""
    joined: list[_Span] = []
    for since, to, watermark_ms in spans:
        if joined and since <= joined[-1][1]:
            before = joined.pop()
            since, to, watermark_ms = before[0], max(to, before[1]), max(watermark_ms, before[2])
        joined.append((since, to, watermark_ms))
    spans[:] = joined
