"""Contributions: the changes of sharded states, which go only to the partition that answers for their keys.

Two rules for this file. A contribution begins where the last one to its shard has ended. Before the first one nothing
is missing to a reader that knows the partition's checkpoint.

A contribution may wait until a window ends that it adds to. All of a partition wait, or none.
"""

from __future__ import annotations

from collections.abc import Mapping

from wcrdt.lattice import type_of_wire
from wcrdt.lattices.keyed.sharding import AnyMap, Sharding, wires_by_shard
from wcrdt.replica.slots import OwnTrack, Position, TrackDelta
from wcrdt.windows.assigners import BEFORE_TIME_MS
from wcrdt.windows.panes import Panes, first_end

KEY_BYTES = 16
"""Of a key with its value, before any was sent."""


class ShardContributions:
    """Of a partition's record track; ``shards``: of the states that leave so, which partition answers for a key.

    ``panes``: those that the windows of these states share.
    """

    def __init__(
        self, record: OwnTrack, shards: Mapping[str, Sharding], panes: Mapping[str, Panes | None] | None = None
    ) -> None:
        self._record = record
        self._shards = dict(shards)
        self._panes = {} if panes is None else panes
        record.apart = frozenset(shards)
        self._ends: dict[int, Position] = {}
        self._began_at = self.sent_through = record.position
        """All before this position were taken."""
        self._keys = 0
        self._key_bytes: float = KEY_BYTES

    def begin(self) -> None:
        """All contributions up to here are on the log, or there are none."""
        self._ends.clear()
        self._began_at = self.sent_through = self._record.position

    @property
    def are_waiting(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._record.apart) and any(True for _ in self._record.unsent_apart())

    def may_wait(self, through_ms: int, most_bytes: int) -> bool:
        """Whether there are some, none is to a window that ends by then, and all have about so many bytes at most.

        Where there are none, all are sent: a next owner begins at a position up to which others know that.
        """
        keys = 0
        for state, held, value in self._record.unsent_apart():
            if first_end(self._panes.get(state), held, BEFORE_TIME_MS) <= through_ms:
                return False
            keys += len(value)
        return 0 < keys * self._key_bytes <= most_bytes

    def were(self, taken_bytes: int) -> None:
        """So many bytes the last ones that were taken had."""
        if self._keys:
            self._key_bytes, self._keys = taken_bytes / self._keys, 0

    def take(self) -> dict[int, TrackDelta]:
        """The changes since the last call, by shard; to be called before the delta is taken."""
        record = self._record
        if not record.apart:
            return {}
        made: dict[int, TrackDelta] = {}
        self._keys = sum(len(value) for *_, value in record.unsent_apart())
        self.sent_through = record.position
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
