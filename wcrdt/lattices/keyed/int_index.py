"""Distinct integers and the place at which each was added: open addressing, a column of keys at a time.

Compiled loops do it where the runtime has installed them, else NumPy, both in the same tables. A table holds places,
not integers, so that it costs 4 bytes a slot. Integers that lie close to each other have a slot each, in their order,
and are not searched (``_low``). Else the slot of an integer depends on a secret of the process, where the runtime has
drawn one, so that nobody can choose keys that collide. Places do not depend on it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wcrdt.column_memory import copied, filled, kept
from wcrdt.lattices.columns import Ints

_FACTORS = [np.uint64(0x9E37_79B9_7F4A_7C15)]
_LEAST_BITS = 6
_FULL = 2, 3
"""At most two of three slots are taken."""

_FEW = 128
"""So few that still search look at a run of slots at once: by single slots the last ones take dozens of rounds."""
_RUN = np.arange(16)
_NEXT = _RUN + 1

_WORD = (1 << 64) - 1
_LEAST, _MOST = -(1 << 63), 1 << 63
_SPREAD, _LEAST_SPREAD = 2, 64
"""Integers within so many times their number, and some more, lie close to each other."""
_ROOM = 2048
"""Half of the slots above integers that lie close, at most, beyond an eighth: those of a stream mostly ascend."""
_GROWTH = 512
"""Rows by which a column grows, at most, beyond an eighth."""


class IndexLoops(Protocol):
    """The compiled loops of this folder. All their arguments are int64: addresses of columns, and numbers."""

    def address(self, column: NDArray[Any]) -> int: ...

    def find_ints(self, *arguments: int) -> int: ...

    def enter_ints(self, *arguments: int) -> int: ...

    def hash_spans(self, *arguments: int) -> int: ...

    def equal_spans(self, *arguments: int) -> int: ...


_LOOPS: list[IndexLoops | None] = [None]


def install_loops(loops: IndexLoops | None) -> None:
    """From now on this process has these loops (None: none)."""
    _LOOPS[0] = loops


def loops() -> IndexLoops | None:
    """The loops that this process has."""
    return _LOOPS[0]


def install_secret(secret: int) -> None:
    """Indexes that are made from now on spread their keys by this odd number of 64 bits, which nobody else knows."""
    _FACTORS[0] = np.uint64(secret | 1)


def factor() -> np.uint64:
    """The odd number that a new index goes by."""
    return _FACTORS[0]


class IntIndex:
    """Places count from 0 in the order of ``add``; nothing is ever removed."""

    __slots__ = ("_bits", "_factor", "_keys", "_low", "_table", "count")

    def __init__(self, keys: Ints | None = None) -> None:
        self._keys = np.empty(0, np.int64) if keys is None else kept(np.ascontiguousarray(keys, np.int64))
        self.count = len(self._keys)
        self._bits = 0
        self._low: int | None = None  # the integer of the first slot, where each has its own
        self._factor = factor()
        self._table: NDArray[np.int32] | None = None  # made when it is first needed

    @property
    def keys(self) -> Ints:
        """The integers by place; not to be written."""
        return self._keys[: self.count]

    @property
    def size_bytes(self) -> int:
        """Memory of its arrays."""
        return self._keys.nbytes + (0 if self._table is None else self._table.nbytes)

    def first(self, count: int) -> IntIndex:
        """An independent index of the first of these."""
        fresh = IntIndex()
        fresh._keys, fresh.count = copied(self._keys[:count]), count
        return fresh

    def copy(self) -> IntIndex:
        """An independent equal index."""
        fresh = self.first(self.count)
        fresh._bits, fresh._low, fresh._factor = self._bits, self._low, self._factor
        fresh._table = None if self._table is None else copied(self._table)
        return fresh

    def find(self, keys: Ints) -> Ints:
        """The place of each, -1 where it is not there."""
        table = self._made()
        if (loops := _LOOPS[0]) is not None and self.count:
            return self._find_compiled(loops, keys, table)
        if self._low is not None:
            distances = _distances(keys, self._low)
            if not len(keys) or int(np.maximum.reduce(distances)) < len(table):
                return table[distances.view(np.int64)].astype(np.int64)
            inside = distances < np.uint64(len(table))
            return np.where(inside, table[np.where(inside, distances, 0).view(np.int64)], -1).astype(np.int64)
        mask = np.int64((1 << self._bits) - 1)
        slots = self._slots(keys)
        found = table[slots].astype(np.int64)
        rows = np.flatnonzero((found >= 0) & (self._keys[found] != keys)) if self.count else _NO_ROWS
        while len(rows) > _FEW:
            slots[rows] = at = (slots[rows] + 1) & mask
            found[rows] = places = table[at].astype(np.int64)
            rows = rows[(places >= 0) & (self._keys[places] != keys[rows])]
        at, wanted = slots[rows], keys[rows]
        while len(rows):
            runs = (at[:, None] + _NEXT) & mask
            places = table[runs]
            ends = (places < 0) | (self._keys[places] == wanted[:, None])
            first = ends.argmax(axis=1)
            each = np.arange(len(rows))
            found[rows] = places[each, first]
            left = ~ends[each, first]
            rows, at, wanted = rows[left], runs[left, -1], wanted[left]
        return found

    def _find_compiled(self, loops: IndexLoops, keys: Ints, table: NDArray[np.int32]) -> Ints:
        at = loops.address
        keys, stored, found = np.ascontiguousarray(keys, np.int64), self._keys, np.empty(len(keys), np.int64)
        bits, low = (self._bits, 0) if self._low is None else (0, self._low)
        loops.find_ints(
            at(keys), len(keys), at(stored), at(table), len(table), low & _WORD, bits,
            int(self._factor), at(found),
        )  # fmt: skip
        return found

    def ascending(self) -> Ints | None:
        """The places in the order of their integers; None where sorting them is as quick."""
        if self._low is None or self._table is None:
            return None
        if not _LEAST <= self._low <= _MOST - len(self._table):  # slots beyond 64 bits are those of the other end
            return None
        return self._table[self._table >= 0].astype(np.int64)

    def add(self, keys: Ints) -> None:
        """Add integers that are not there, each at the next place.

        One that comes twice among them, which no caller means, is added as the next higher one that is free.
        """
        if not len(keys):
            return
        begin, self.count = self.count, self.count + len(keys)
        self._keys = with_room(self._keys, self.count)
        self._keys[begin : self.count] = keys
        if self._low is not None and self._table is not None:
            if self._place_apart(self._table, self._low, begin):
                return
            self._table = None
        if self._table is None or self.count * _FULL[1] > _FULL[0] << self._bits:
            self._table = None
            self._made()
        else:
            self._place(self._table, begin)

    def _made(self) -> NDArray[np.int32]:
        if self._table is None and self.count:
            low, high = int(self.keys.min()), int(self.keys.max())
            below = (high - low) // 8 + 8
            above = below + min(2 * (high - low), 2 * _ROOM)
            self._low = None
            if high - low < _SPREAD * self.count + _LEAST_SPREAD:
                table = filled(below + high - low + 1 + above, -1, np.int32)
                if self._place_apart(table, low - below, 0):
                    self._low, self._table = low - below, table
        if self._table is None:
            bits = _LEAST_BITS
            while self.count * _FULL[1] > _FULL[0] << bits:
                bits += 1
            self._bits = bits
            self._table = filled(1 << bits, -1, np.int32)
            self._place(self._table, 0)
        return self._table

    def _place_apart(self, table: NDArray[np.int32], low: int, begin: int) -> bool:
        """Give the places from ``begin`` on slots of their own; False if one has none, or two have the same."""
        if (loops := _LOOPS[0]) is not None:
            where = loops.address(self._keys), begin, self.count, loops.address(table), len(table)
            return not loops.enter_ints(*where, low & _WORD, 0, 0)
        distances = _distances(self._keys[begin : self.count], low)
        if int(np.maximum.reduce(distances)) >= len(table):
            return False
        slots = distances.view(np.int64)
        table[slots] = places = np.arange(begin, self.count, dtype=np.int32)
        return not np.count_nonzero(table[slots] != places)

    def _place(self, table: NDArray[np.int32], begin: int) -> None:
        """Enter the places from ``begin`` on. Of several that meet in a free slot one gets it, the others go on."""
        stored, mask = self._keys, np.int64((1 << self._bits) - 1)
        if (loops := _LOOPS[0]) is not None:
            where = loops.address(stored), begin, self.count, loops.address(table), len(table)
            loops.enter_ints(*where, 0, self._bits, int(self._factor))
            return
        places = np.arange(begin, self.count, dtype=np.int32)
        slots = self._slots(stored[begin : self.count])
        while len(places) > _FEW:
            free = table[slots] < 0
            table[slots[free]] = places[free]
            lost = table[slots] != places
            places, slots = places[lost], slots[lost]
            twice = stored[table[slots]] == stored[places]
            slots = (slots + 1) & mask
            if twice.any():
                stored[places[twice]] += 1
                slots[twice] = self._slots(stored[places[twice]])
        while len(places):
            runs = (slots[:, None] + _RUN) & mask
            there = table[runs]
            ends = (there < 0) | (stored[there] == stored[places][:, None])
            first = ends.argmax(axis=1)
            each = np.arange(len(places))
            slots, ended = runs[each, first], ends[each, first]
            free = table[slots] < 0
            table[slots[free]] = places[free]
            twice = ended & ~free
            stored[places[twice]] += 1
            slots = np.where(twice, self._slots(stored[places]), np.where(ended, slots, runs[:, -1] + 1))
            lost = ~free | (table[runs[each, first]] != places)
            places, slots = places[lost], slots[lost]

    def _slots(self, keys: Ints) -> Ints:
        mixed = keys.view(np.uint64) * self._factor
        mixed ^= mixed >> np.uint64(32)
        mixed *= self._factor
        return (mixed >> np.uint64(64 - self._bits)).view(np.int64)


def _distances(keys: Ints, low: int) -> NDArray[np.uint64]:
    """How far each is above ``low``, which may be below all of 64 bits; beyond any table for one below it."""
    return keys.view(np.uint64) - np.uint64(low & _WORD)


_NO_ROWS = np.empty(0, np.intp)


class IntStore:
    """A growing column of ints."""

    __slots__ = ("_column", "count")

    def __init__(self) -> None:
        self._column = np.empty(0, np.int64)
        self.count = 0

    @property
    def size_bytes(self) -> int:
        return self._column.nbytes

    def add(self, numbers: Ints) -> None:
        begin, self.count = self.count, self.count + len(numbers)
        self._column = with_room(self._column, self.count)
        self._column[begin : self.count] = numbers

    def take(self, rows: Any) -> Ints:
        return self._column[: self.count][rows]


def with_room(column: NDArray[Any], rows: int, fill: Any = 0) -> NDArray[Any]:
    """The column itself if it has so many rows, else a longer copy; what is behind its rows holds ``fill``."""
    if len(column) >= rows:
        return column
    longer = filled(max(rows, len(column) + len(column) // 8 + min(len(column), _GROWTH) + 16), fill, column.dtype)
    longer[: len(column)] = column
    return longer
