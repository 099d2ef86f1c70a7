"""The keys of a map and the values under them, as columns.

A map and what was made of it (copies, deltas) share one index of keys, which only grows. So a delta is a list of places
in the index, and deltas of one map are joined without reading a key. A map that meets new keys after another one has
added some to the index goes on with an index of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from wcrdt.codec import DecodeError, require
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints
from wcrdt.lattices.keyed.keys import KeyIndex, Keys, Unfit, ascend, check_all_texts, key_columns, keys_from_wire
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf

FORMAT = 1
"""Of columns on the wire: the first entry there, where a map without columns has a list."""
_WIDE = 32
"""Places that lie within so many times their number are joined by a table of all of them."""


class KeyedColumns:
    """``height`` rows: the one at ``places[i]`` of the index has the values in row i of the leaf.

    ``places`` ascend; None: the first ones of the index. ``_in_order``: the keys in their order, and the row of each,
    where that is known; a change forgets it.
    """

    __slots__ = ("_in_order", "height", "index", "leaf", "places")

    def __init__(self, index: KeyIndex, leaf: Leaf, height: int, places: Ints | None = None) -> None:
        self.index = index
        self.leaf = leaf
        self.height = height
        self.places = places
        self._in_order: tuple[Keys, Indices] | None = None

    @classmethod
    def of_objects(cls, entries: Mapping[Hashable, AnyLattice], leaf: Leaf) -> KeyedColumns:
        """The same keys and values as columns. Raises ``Unfit``."""
        keys = key_columns(list(entries))
        if keys is None:
            raise Unfit
        return cls(KeyIndex.of(keys), leaf.of_lattices(list(entries.values())), keys.rows)

    def objects(self, chosen: Callable[[Any], bool] | None = None) -> dict[Any, AnyLattice]:
        """A lattice for each key, or for each chosen one, independent of this."""
        keys, rows = self.keys().tolist(), np.arange(self.height)
        if chosen is not None:
            rows = np.array([row for row, key in enumerate(keys) if chosen(key)], np.intp)
            keys = [keys[row] for row in rows.tolist()]
        return dict(zip(keys, self.leaf.lattices(rows), strict=True))

    def keys(self) -> Keys:
        """By row."""
        return self.index.take(slice(0, self.height) if self.places is None else self.places)

    def copy(self) -> KeyedColumns:
        return KeyedColumns(self.index, self.leaf.copy(self.height), self.height, self.places)

    @property
    def size_bytes(self) -> int:
        """Memory of its arrays, with those of the index."""
        return self.index.size_bytes + self.leaf.size_bytes + (0 if self.places is None else self.places.nbytes)

    # --- one key --------------------------------------------------------------------------------------------------

    def row_of(self, key: Any) -> Indices:
        """The row of a key, or none."""
        keys = key_columns([key])
        if keys is None or keys.form != self.index.form:
            return np.empty(0, np.intp)
        rows = self._rows_of(keys)
        return rows[rows >= 0]

    def rows_of(self, keys: Keys) -> Ints:
        """The row of each key, -1 where it is not there. Raises ``Unfit`` for keys of another form."""
        if keys.form != self.index.form:
            raise Unfit
        return self._rows_of(keys)

    def _rows_of(self, keys: Keys) -> Ints:
        found, _ = self.index.find(keys)
        if self.places is None:
            return np.where(found < self.height, found, -1)
        rows = np.minimum(np.searchsorted(self.places, found), max(self.height - 1, 0))
        return np.where(self.places[rows] == found, rows, -1) if self.height else np.full(len(found), -1)

    # --- growing --------------------------------------------------------------------------------------------------

    def insert_many(self, keys: Keys, groups: Groups, parts: Any, actor: int) -> KeyedColumns:
        """Add the parts, whose groups have these keys; returns the delta. Raises ``Unfit``, with nothing added."""
        self._in_order = None
        folded = self.leaf.fold(parts, groups)
        rows, new, numbers = self._rows_for(keys)
        height = self.height + len(new)
        prepared, changed = self.leaf.prepare(rows, folded, actor, height)
        self._grow(keys, new, numbers)
        self.leaf.commit(prepared)
        changed[new] = True
        return self._delta(keys, rows, changed, prepared, actor)

    def _delta(self, keys: Keys, rows: Ints, changed: Any, prepared: Any, actor: int) -> KeyedColumns:
        """The parts that were written to those rows that have changed."""
        if not changed.all():
            keys, rows = keys.take(changed), rows[changed]
        order = rows.argsort()
        written = rows[order]
        places = None if len(written) and int(written[-1]) == len(written) - 1 else written
        delta = KeyedColumns(self.index, self.leaf.brought(prepared, written, actor), len(written), places)
        if keys.form == "i" and ascend(keys.sort_columns()):  # as columns of ints are grouped
            ranks = np.empty(len(order), np.intp)
            ranks[order] = np.arange(len(order))
            delta._in_order = keys, ranks
        return delta

    def merge(self, other: KeyedColumns) -> bool:
        """Join the other into this; True if this changed. Raises ``Unfit``, with nothing changed."""
        if other.height == 0:
            return False
        self._in_order = None
        if self.index is other.index:
            places = np.arange(other.height) if other.places is None else other.places
            if self.places is not None:
                return self._merge_places(self.places, places, other.leaf)
            new = len(places) - int(np.searchsorted(places, self.height))
            if int(places[-1]) < self.height + new:  # all that this has not is the next in the index
                prepared, changed = self.leaf.prepare_join(places, other.leaf, self.height + new)
                self.height += new
                self.leaf.commit(prepared)
                return changed or new > 0
        keys = other.keys()
        rows, new, numbers = self._rows_for(keys)
        prepared, changed = self.leaf.prepare_join(rows, other.leaf, self.height + len(new))
        self._grow(keys, new, numbers)
        self.leaf.commit(prepared)
        return changed or len(new) > 0

    def of_one_actor(self) -> KeyedColumns:
        """The same elements as of actor 0. Unchanged parts are shared: not to be written. Raises ``Unfit``."""
        return KeyedColumns(self.index, self.leaf.of_one_actor(self.height), self.height, self.places)

    def combine(self, other: KeyedColumns | None) -> None:
        """Go on with the elements of both, as those of actor 0. Raises ``Unfit``, with nothing changed."""
        self._in_order = None
        leaf = self.leaf.of_one_actor(self.height)
        if other is not None and other.height:
            keys = other.keys()
            rows, new, numbers = self._rows_for(keys)
            prepared = leaf.prepare_combine(rows, other.leaf, self.height + len(new))
            self._grow(keys, new, numbers)
            leaf.commit(prepared)
        self.leaf = leaf

    def taken(self, rows: Indices) -> KeyedColumns:
        """Independent columns of some rows, at least one, of what one actor has added."""
        return KeyedColumns(KeyIndex.of(self.keys().take(rows)), self.leaf.taken(rows), len(rows))

    def _merge_places(self, mine: Ints, theirs: Ints, leaf: Leaf) -> bool:
        together, rows, rows_there = _union(mine, theirs)
        grows = len(together) > len(mine)
        joined = self.leaf.spread(rows, len(together)) if grows else self.leaf
        prepared, changed = joined.prepare_join(rows_there, leaf, len(together))
        joined.commit(prepared)
        self.leaf, self.places, self.height = joined, together, len(together)
        return changed or grows

    def _rows_for(self, keys: Keys) -> tuple[Ints, Indices, Ints]:
        """A row for each key, which of them are new, and the numbers by which the index adds these."""
        if keys.form != self.index.form:
            raise Unfit
        if self.places is not None or self.index.count != self.height:
            self.index, self.places = KeyIndex.of(self.keys()), None
        rows, numbers = self.index.find(keys)
        new = (rows < 0).nonzero()[0]
        rows[new] = np.arange(self.height, self.height + len(new))
        if self.index.form != "i":
            check_all_texts(keys.take(new))
        return rows, new, numbers

    def _grow(self, keys: Keys, new: Indices, numbers: Ints) -> None:
        if len(new):
            # Of ints the numbers are the keys.
            self.index.add(keys if keys.form == "i" else keys.take(new), numbers[new])
            self.height += len(new)

    def leq(self, other: KeyedColumns) -> bool:
        """Whether this is below or equal to the other. Raises ``Unfit``."""
        keys = self.keys()
        if keys.form != other.index.form:
            raise Unfit
        rows = other._rows_of(keys)
        return bool((rows >= 0).all()) and self.leaf.leq(rows, other.leaf)

    # --- reading --------------------------------------------------------------------------------------------------

    def ordered(self) -> tuple[Keys, Indices]:
        """The keys in their order, and the row of each."""
        if self._in_order is not None:
            return self._in_order
        if (rows := self._order_of_index()) is not None:
            if self.places is None:
                rows = rows if len(rows) == self.height else rows[rows < self.height]
                return self.index.take(rows), rows
            row_of = np.full(len(rows), -1)
            row_of[self.places] = np.arange(self.height)
            rows = row_of[rows]
            rows = rows[rows >= 0]
            return self.index.take(self.places[rows]), rows
        keys = self.keys()
        order = keys.order()
        return (keys, np.arange(self.height)) if order is None else (keys.take(order), order)

    def ordered_of(self, rows: Indices) -> tuple[Keys, Indices]:
        """The keys of some rows in their order, and the row of each."""
        keys = self.index.take(rows if self.places is None else self.places[rows])
        order = keys.order()
        return (keys, rows) if order is None else (keys.take(order), rows[order])

    def _order_of_index(self) -> Ints | None:
        """All places of the index in the order of their keys, where that is cheaper than to sort those of the rows."""
        if self.places is not None and self.index.form == "i":
            return None  # those have a slot for each integer in between
        return self.index.ascending(self.height)

    def value(self) -> dict[Any, Any]:
        """Key -> value, in the order of keys."""
        keys, rows = self.ordered()
        return dict(zip(keys.tolist(), self.leaf.values(rows), strict=True))

    def to_wire(self) -> list[type_of_wire]:
        """``[format, form of keys, columns of keys ..., the leaf's columns]``, in the order of keys."""
        return self.wire_of(*self.ordered())

    def wire_of(self, keys: Keys, rows: Indices) -> list[type_of_wire]:
        """The same of some rows alone, in the order of their keys."""
        return [FORMAT, *keys.to_wire(ascend=True), self.leaf.to_wire(rows)]


def combined(mine: KeyedColumns | None, theirs: KeyedColumns | None) -> KeyedColumns | None:
    """The first one, or a new one, that took in the other; None: no keys. Raises ``Unfit``, with nothing changed."""
    if mine is None and theirs is not None:
        mine = KeyedColumns(KeyIndex(theirs.index.form), theirs.leaf.empty(), 0)
    if mine is not None:
        mine.combine(theirs)
    return mine


def _union(mine: Ints, theirs: Ints) -> tuple[Ints, Ints, Ints]:
    """The places of both, ascending as they do, and where in these each of theirs is."""
    most = int(max(mine[-1], theirs[-1])) + 1
    if most > _WIDE * (len(mine) + len(theirs)):
        together = np.sort(np.concatenate([mine, theirs]))
        together = together[np.concatenate([[True], together[1:] != together[:-1]])]
        return together, np.searchsorted(together, mine), np.searchsorted(together, theirs)
    present = np.zeros(most, np.bool_)
    present[mine] = present[theirs] = True
    ranks = np.cumsum(present, dtype=np.int64)
    return np.flatnonzero(present), ranks[mine] - 1, ranks[theirs] - 1


def columns_from_wire(wire: list[type_of_wire], leaf: Leaf) -> KeyedColumns:
    """Inverse of ``KeyedColumns.to_wire``. Raises ``DecodeError``, and what decoders turn into one."""
    if wire[0] != FORMAT:
        raise DecodeError(f"columns of keys have format {wire[0]}; this release reads {FORMAT}")
    require(len(wire) > 3, "columns of keys were expected")
    try:
        keys = keys_from_wire(wire[1:-1])
        require(keys.order() is None, "keys must ascend, each once")
        found = KeyedColumns(KeyIndex.of(keys), leaf.from_wire(wire[-1], keys.rows), keys.rows)
    except DecodeError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise DecodeError(f"no columns of keys: {error}") from error
    return found
