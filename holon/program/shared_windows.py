"""The windows of shared states as one partition reads them: of a sharded state, the keys that it answers for.

Two rules for this file. It writes nothing. A complete window is read alike whichever way contributions have come here:
whole ones to all partitions, or contributions to the one that answers for a key.
"""

from __future__ import annotations

from collections.abc import Mapping

from wcrdt.lattices.keyed.sharding import AnyMap, Sharding, part_of
from wcrdt.lattices.maps import KeyedMap
from wcrdt.replica.replica import AnyLattice, Replica
from wcrdt.windows.assigners import Window


class SharedWindows:
    """Of ``partition``. ``shards``: of the states of which it reads its keys alone, which keys these are.

    ``shard``: a replica with the contributions for this partition; of sharded states that it does not have, whole
    contributions are in ``replica``.
    """

    def __init__(
        self,
        replica: Replica,
        partition: int,
        shards: Mapping[str, Sharding],
        shard: Replica | None = None,
    ) -> None:
        self.replica = replica
        self.shard = shard
        self._partition = partition
        self._contributions = frozenset() if shard is None else frozenset(shard.shapes)
        self._whole = frozenset(shards) - self._contributions
        self._shards = shards
        self._parts: dict[tuple[str, Window], AnyMap | None] = {}

    @property
    def complete_through_ms(self) -> int:
        """Record-track windows that end at or before this are final, and all contributions of them are here."""
        through_ms = self.replica.complete_through_ms
        return through_ms if self.shard is None else min(through_ms, self.shard.complete_through_ms)

    def is_complete(self, state: str, window: Window) -> bool:
        """True once no partition can add to this window any more."""
        return self._of(state).is_complete(state, window)

    def ended(self, state: str, after_ms: int, through_ms: int) -> list[Window]:
        """Complete windows with contents that end after ``after_ms`` and at or before ``through_ms``, by end."""
        found = self._of(state).ended(state, after_ms, through_ms)
        return [each for each in found if self._part(state, each) is not None] if state in self._whole else found

    def first_end(self, state: str, after_ms: int) -> int | None:
        """The first end after ``after_ms`` at which some partition may have contributed to a window of the state."""
        return self._of(state).first_end(state, after_ms)

    def ends_after(self, state: str, after_ms: int) -> int:
        """How many windows of the state end after ``after_ms``, to which some partition may have contributed."""
        return self._of(state).ends_after(state, after_ms)

    def final_value(self, state: str, window: Window) -> AnyLattice:
        """The join of all contributions to a complete window; shared, not to be written."""
        if state not in self._whole:
            return self._of(state).final_value(state, window)
        part = self._part(state, window)
        return self.replica.bottoms[state].bottom() if part is None else part

    def drop_through(self, end_ms: int) -> None:
        """Forget the windows that end at or before ``end_ms``."""
        for key in [key for key in self._parts if key[1].end_ms <= end_ms]:
            del self._parts[key]
        if self.shard is not None:
            self.shard.drop_through(end_ms)

    def _of(self, state: str) -> Replica:
        return self.shard if self.shard is not None and state in self._contributions else self.replica

    def _part(self, state: str, window: Window) -> AnyMap | None:
        """The keys of this partition; None: there are none."""
        known = (state, window)
        if known not in self._parts:
            value = self.replica.final_value(state, window)
            assert isinstance(value, KeyedMap), f"{state} has no keys"
            self._parts[known] = part_of(value, self._shards[state], self._partition)
        return self._parts[known]
