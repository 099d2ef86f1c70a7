"""Contributions: the changes of sharded states, which go only to the partition that answers for their keys.

Two rules for this file. A contribution begins where the last one to its shard has ended. Before the first one nothing
is missing to a reader that knows the partition's checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

from wcrdt.lattice import type_of_wire
from wcrdt.lattices.keyed.sharding import AnyMap, Sharding, wires_by_shard
from wcrdt.replica.slots import OwnTrack, Position, TrackDelta


class ShardContributions:
    """Of a partition's record track; ``shards``: of the states that leave so, which partition answers for a key."""

    def __init__(self, record: OwnTrack, shards: Mapping[str, Sharding]) -> None:
        self._record = record
        self._shards = dict(shards)
        record.apart = frozenset(shards)
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
        for shard, changes in sorted(record.by_shard(self._wires).items()):
            since = self._ends.get(shard, self._began_at)
            made[shard] = TrackDelta(since, record.position, record.watermark_ms, changes)
            self._ends[shard] = record.position
        return made

    def full(self, shard: int) -> TrackDelta:
        """All that there is for a shard."""
        record = self._record
        found = record.by_shard(lambda state, value: self._wires(state, value, shard), whole=True).get(shard, [])
        return TrackDelta(record.position, record.position, record.watermark_ms, found, full=True)

    def _wires(self, state: str, value: AnyMap, only: int | None = None) -> dict[int, type_of_wire]:
        """The bytes of the keys of each shard that has some, or of one alone."""
        return wires_by_shard(value, self._shards[state], only)
