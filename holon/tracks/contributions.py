"""Contributions: the changes of sharded states, which go only to the partition that answers for their keys.

Two rules for this file. A contribution begins where the last one to its shard has ended. Before the first one nothing
is missing to a reader that knows the partition's checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection

from holon.outputs.shards import KeyShards
from wcrdt.replica.slots import OwnTrack, Position, TrackDelta


class ShardContributions:
    """Of a partition's record track; ``states`` are those that leave so."""

    def __init__(self, record: OwnTrack, partitions: int, states: Collection[str]) -> None:
        self._record = record
        self._shards = KeyShards(partitions)
        record.apart = frozenset(states)
        self._ends: dict[int, Position] = {}
        self._began_at = record.position

    def begin(self) -> None:
        """All contributions up to here are on the log, or there are none."""
        self._ends.clear()
        self._began_at = self._record.position

    def take(self) -> dict[int, TrackDelta]:
        """The changes since the last call, by shard; to be called before the delta is taken."""
        record = self._record
        if not record.apart:
            return {}
        made: dict[int, TrackDelta] = {}
        for shard, changes in sorted(record.by_shard(self._shards.wires).items()):
            since = self._ends.get(shard, self._began_at)
            made[shard] = TrackDelta(since, record.position, record.watermark_ms, changes)
            self._ends[shard] = record.position
        return made

    def full(self, shard: int) -> TrackDelta:
        """All that there is for a shard."""
        record = self._record
        found = record.by_shard(lambda value: self._shards.wires(value, shard), whole=True).get(shard, [])
        return TrackDelta(record.position, record.position, record.watermark_ms, found, full=True)
