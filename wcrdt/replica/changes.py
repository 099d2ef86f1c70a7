"""The changes of a track since earlier checkpoints, so that a checkpoint costs what changed.

Two rules for this file. A change that was collected is in each part that reaches back behind it. Bytes of a block that
was made are used again, and never joined anew: who reads them joins them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from wcrdt.column_memory import kept_bytes
from wcrdt.lattice import Lattice
from wcrdt.windows.assigners import BEFORE_TIME_MS, Window

Position = tuple[int, int]
AnyLattice = Lattice[Any, Any]
Key = tuple[str, Window]
Contributions = Mapping[str, Mapping[Window, AnyLattice]]


class Block(NamedTuple):
    """The changes from ``since`` on, up to the next block: by state and window, in bytes."""

    since: Position
    changes: dict[Key, list[msgspec.Raw]]


class CollectedChanges:
    """The changes of one track since ``since``, the position of a whole checkpoint."""

    __slots__ = ("_blocks", "_bottoms", "_open", "_since", "dropped_through_ms")

    def __init__(self, bottoms: Mapping[str, AnyLattice], since: Position) -> None:
        self._bottoms = bottoms
        self._since = since
        self._open: dict[Key, list[tuple[int, AnyLattice]] | None] = {}  # with the number of times each was joined
        self._blocks: list[Block] = []
        self.dropped_through_ms = BEFORE_TIME_MS
        """Windows that end at or before this are gone, although the whole checkpoint may have them."""

    def add(self, changed: Mapping[Key, AnyLattice | None]) -> None:
        """Take deltas over, by state and window; None: the whole window is to be written."""
        for key, delta in changed.items():
            if delta is None or self._open.get(key, ()) is None:
                self._open[key] = None
                continue
            # Only deltas of like size are joined: one after the other would copy all keys at each of them.
            pending, times = self._open.get(key) or [], 0
            while pending and pending[-1][0] == times:
                before = pending.pop()[1]
                before.merge(delta)
                delta, times = before, times + 1
            self._open[key] = [*pending, (times, delta)]

    def block(self, joined: int, contributions: Contributions, position: Position) -> Block:
        """Close the block of what was added since the last call, join it with so many before it, and return it."""
        assert joined <= len(self._blocks), f"{joined} of {len(self._blocks)} blocks"
        fresh: dict[Key, list[msgspec.Raw]] = {}
        for key in sorted(self._open):
            pending = self._open[key]
            value = contributions[key[0]][key[1]] if pending is None else _joined(pending)
            fresh[key] = [msgspec.Raw(kept_bytes(msgspec.msgpack.encode(value.to_wire())))]
        before = self._blocks[len(self._blocks) - joined :]
        made = Block(before[0].since if before else self._since, {})
        for block in (*before, Block(self._since, fresh)):
            for key, wires in block.changes.items():
                if self._bottoms[key[0]].compact:
                    made.changes[key] = wires  # each is the whole window, and the last one holds the others
                else:
                    made.changes.setdefault(key, []).extend(wires)
        self._blocks[len(self._blocks) - joined :] = [made]
        self._open.clear()
        self._since = position
        return made

    def drop_through(self, end_ms: int) -> None:
        """Windows that end at or before this are forgotten."""
        self.dropped_through_ms = max(self.dropped_through_ms, end_ms)
        for changes in (self._open, *(block.changes for block in self._blocks)):
            for key in [key for key in changes if key[1].end_ms <= end_ms]:
                del changes[key]


def _joined(pending: list[tuple[int, AnyLattice]]) -> AnyLattice:
    while len(pending) > 1:
        _, last = pending.pop()
        pending[-1][1].merge(last)
    return pending[0][1]
