"""Shards: what all partitions add to the keys for which one partition answers.

Two rules for this file. A contribution and the delta that names it are the same prefix, by either way. A delta that
names no contribution to a shard says that nothing was added to its keys since contributions were sent before.

A delta may let contributions wait. It says since when, and that none of them is to a window that has ended.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence

import msgspec

from wcrdt.replica.replica import Received, Replica, SlotDelta, StateShape
from wcrdt.replica.slots import RECORD_START, Position, TrackDelta

_Span = tuple[Position, Position, int]
"""From, to, and the watermark there."""


class ShardedDelta(SlotDelta, frozen=True):
    """A delta, and what it leaves out: by shard, the changes of its keys since the last contribution for it.

    On the log they are apart. ``contributions`` of a maker follow each other; between them nothing has changed.
    ``sent_through``: all before this position were sent with earlier deltas. ``waits``: those since then are not sent
    yet, and none of them is to a window that has ended by the delta's watermark.
    """

    contributions: dict[int, TrackDelta] = msgspec.field(default_factory=dict)
    sent_through: Position = RECORD_START
    waits: bool = False


class ShardReplica:
    """The slots of all partitions, of the keys of one shard alone.

    ``starts``: where the partitions begin, so that nothing was added before.
    """

    def __init__(self, shapes: Mapping[str, StateShape], lateness_ms: int, starts: Sequence[Position]) -> None:
        self.replica = Replica(len(starts), shapes, lateness_ms)
        self._starts = tuple(starts)
        self._passed: list[list[_Span]] = []
        self._waiting: list[list[_Span]] = []
        self._covered: list[Position] = []
        self.reset()

    def reset(self) -> None:
        """Know nothing: all contributions are read from the first one on."""
        self.replica.reset()
        for slot, start in zip(self.replica.slots, self._starts, strict=True):
            slot.record.position = start
        self._passed = [[] for _ in self._starts]
        self._waiting = [[] for _ in self._starts]
        self._covered = list(self._starts)

    def position(self, partition: int) -> Position:
        """Up to where nothing of the partition is missing here."""
        return self.replica.slots[partition].record.position

    def covered(self, partition: int) -> Position:
        """Up to where nothing of the partition is missing here that was sent."""
        return max(self.position(partition), self._covered[partition])

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

    def waits(self, partition: int, since: Position, to: Position, watermark_ms: int) -> None:
        """In this part of its input the partition has added nothing to windows that have ended by the watermark."""
        if to > self.covered(partition):
            spans = [span for span in self._waiting[partition] if span[0] != since or span[1] > to]
            self._waiting[partition] = [*spans, (since, to, watermark_ms)]
            self._go_on(partition)

    def took(self, delta: SlotDelta, named: bool, sent_through: Position | None = None, *, waits: bool = False) -> None:
        """A delta was read; ``named``: there is a contribution for this shard with it.

        ``sent_through`` and ``waits`` as in ``ShardedDelta``; None: contributions were sent with the delta before.
        """
        record = delta.record
        if record is not None and record.full and record.to == self.position(delta.partition):
            self.replica.reach(delta.partition, record.watermark_ms)
        if record is None or record.full or named:
            return
        since = record.since if sent_through is None else sent_through
        (self.waits if waits else self.passed)(delta.partition, since, record.to, record.watermark_ms)

    def _go_on(self, partition: int) -> None:
        spans = self._passed[partition]
        while spans and spans[0][0] <= (have := self.position(partition)):
            since, to, watermark_ms = spans.pop(0)
            if to > have:
                empty = TrackDelta(since, to, watermark_ms, [])
                self.replica.receive(SlotDelta(partition, 0, empty, None))
        waiting = self._waiting[partition]
        if waiting:
            have = self.position(partition)
            for since, to, watermark_ms in waiting:
                if since <= have < to:
                    self._covered[partition] = max(self._covered[partition], to)
                    self.replica.reach(partition, watermark_ms)
            self._waiting[partition] = [span for span in waiting if span[0] > have]


def _join(spans: list[_Span]) -> None:
    """Spans that touch are one."""
    joined: list[_Span] = []
    for since, to, watermark_ms in spans:
        if joined and since <= joined[-1][1]:
            before = joined.pop()
            since, to, watermark_ms = before[0], max(to, before[1]), max(watermark_ms, before[2])
        joined.append((since, to, watermark_ms))
    spans[:] = joined
