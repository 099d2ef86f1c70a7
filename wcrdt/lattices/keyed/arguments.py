"""The payloads of the largest or smallest number of each key: a column of numbers, and one of payloads behind it.

Payloads lie in the order of rows, and in their own order within a row; a row has several where they tie. Their columns
are replaced as a whole, never edited, so that copies share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.column_memory import kept
from wcrdt.elements import ordered
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, take
from wcrdt.lattices.extremes import Max, Min
from wcrdt.lattices.keyed.extremes import ExtremeLeaf
from wcrdt.lattices.keyed.keys import Keys, Unfit, ascend, check_all_texts, key_columns, keys_from_wire
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask, entries_of, numbers_of_column, two_columns
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.max_by import MaxBy

_TIED, _BETTER = 1, 2


class Payloads(NamedTuple):
    """Distinct payloads, ordered by owner and then by themselves; each belongs to its row in ``owners``."""

    owners: Ints
    keys: Keys

    def held(self) -> Payloads:
        """The same for longer, where long columns lie."""
        return Payloads(kept(self.owners), self.keys.held())


class Folded(NamedTuple):
    """Of each group the best number, and the payloads that came with it; the owner is the group."""

    best: Any
    payloads: Payloads


class ArgumentLeaf(Leaf):
    """``MaxBy`` and ``MinBy``, with payloads of one form: ints, texts, bytes, or tuples of these."""

    __slots__ = ("_best", "_first", "_payloads")

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._best = ExtremeLeaf(Max() if type(inner) is MaxBy else Min())
        self._first = inner.shape() == "first"
        self._payloads: Payloads | None = None

    def empty(self) -> Self:
        return type(self)(self.inner)

    def _of(self, best: ExtremeLeaf, payloads: Payloads | None) -> Self:
        fresh = self.empty()
        fresh._best, fresh._payloads = best, payloads
        return fresh

    def _known(self) -> Payloads:
        assert self._payloads is not None, "a row is written as it comes"
        return self._payloads

    # --- growing --------------------------------------------------------------------------------------------------

    def fold(self, column: Any, groups: Groups) -> Folded:
        given, payloads = two_columns(column)
        numbers = numbers_of_column(given)
        best = self._best.fold(numbers, groups)
        sizes = groups.sizes()
        hits = np.flatnonzero(groups.arranged(numbers) == np.repeat(best, sizes))
        owners = np.repeat(np.arange(len(sizes)), sizes)[hits]
        return Folded(best, self._ordered(owners, _payloads_at(payloads, groups, hits)))

    def _ordered(self, owners: Ints, keys: Keys) -> Payloads:
        return self._joined(Payloads(owners[:0], keys.take(np.empty(0, np.intp))), Payloads(owners, keys))[0]

    def _joined(self, mine: Payloads, theirs: Payloads) -> tuple[Payloads, Ints]:
        """The payloads of both, of which theirs may be in any order; and the owners to whom theirs bring something."""
        owners = np.concatenate([mine.owners, theirs.owners])
        keys = mine.keys.joined(theirs.keys)
        comes = np.arange(len(owners)) >= len(mine.owners)
        columns = [owners, *keys.sort_columns()]
        order = np.lexsort([comes, *columns[::-1]])
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in columns[:1] if self._first else columns:
            arranged = column[order]
            same &= arranged[1:] == arranged[:-1]
        first = order[np.concatenate([[True], ~same])] if len(order) else order
        return Payloads(owners[first], keys.take(first)), owners[first[comes[first]]]

    def prepare(self, rows: Indices, folded: Folded, actor: int, height: int) -> tuple[Any, Mask]:
        best, changed = self._best.prepare(rows, folded.best, actor, height)
        status = np.zeros(height, np.int8)
        status[rows[best[1] == folded.best]] = _TIED
        status[rows[changed]] = _BETTER
        owners = rows[folded.payloads.owners]
        given = np.flatnonzero(status[owners])
        come = Payloads(owners[given], folded.payloads.keys.take(given))
        if self._payloads is None:
            payloads, gainers = self._joined(Payloads(come.owners[:0], come.keys.take(given[:0])), come)
        else:
            fate = status[self._payloads.owners]
            tied, others = (_taken(self._payloads, np.flatnonzero(fate == each)) for each in (_TIED, 0))
            payloads, gainers = self._joined(tied, come)
            payloads = _in_order(others, payloads)
        gains = np.zeros(height, np.bool_)
        gains[gainers] = True
        return (best, payloads), changed | gains[rows]

    def prepare_join(self, rows: Indices, other: Any, height: int) -> tuple[Any, bool]:
        assert other._best._column is not None, "a row is written as it comes"
        prepared, changed = self.prepare(rows, Folded(other._best._column[: len(rows)], other._known()), 0, height)
        return prepared, bool(changed.any())

    def commit(self, prepared: Any) -> None:
        self._best.commit(prepared[0])
        self._payloads = prepared[1].held()

    def leq(self, rows: Indices, other: Any) -> bool:
        if not self._best.leq(rows, other._best):
            return False
        mine, theirs = self._best._column, other._best._column
        assert mine is not None, "a row is written as it comes"
        tied = mine[: len(rows)] == theirs[rows]
        own = _taken(self._known(), np.flatnonzero(tied[self._known().owners]))
        there = np.zeros(int(rows.max()) + 1, np.bool_)
        there[rows[tied]] = True
        inside = other._known().owners < len(there)
        known = _taken(other._known(), np.flatnonzero(inside)[there[other._known().owners[inside]]])
        return not len(self._joined(known, Payloads(rows[own.owners], own.keys))[1])

    # --- parts and copies -----------------------------------------------------------------------------------------

    def _at(self, rows: Indices) -> Payloads:
        """The payloads of these rows, which own them by their place."""
        payloads = self._known()
        order, owners = entries_of(payloads.owners, rows)
        return Payloads(owners, payloads.keys.take(order))

    def own(self, rows: Indices, actor: int) -> Self:
        return self._of(self._best.own(rows, actor), self._at(rows) if len(rows) else None)

    def copy(self, rows: int) -> Self:
        return self._of(self._best.copy(rows), self._payloads)

    def spread(self, rows: Indices, height: int) -> Self:
        owners = rows[self._known().owners]
        order = np.argsort(owners, kind="stable")
        return self._of(self._best.spread(rows, height), Payloads(owners[order], self._known().keys.take(order)).held())

    # --- reading --------------------------------------------------------------------------------------------------

    def _each(self, rows: Indices) -> list[tuple[Any, list[Any]]]:
        """Of each row the number and its payloads."""
        if not len(rows):
            return []
        payloads = self._at(rows)
        objects = payloads.keys.tolist()
        borders = np.searchsorted(payloads.owners, np.arange(len(rows) + 1)).tolist()
        best = self._best.values(rows)
        return [(each, objects[a:b]) for each, a, b in zip(best, borders, borders[1:], strict=False)]

    def values(self, rows: Indices) -> list[Any]:
        if self._first:
            return [(best, payloads[0]) for best, payloads in self._each(rows)]
        return [(best, tuple(payloads)) for best, payloads in self._each(rows)]

    def to_wire(self, rows: Indices) -> type_of_wire:
        payloads = self._at(rows)
        counts = np.bincount(payloads.owners, minlength=len(rows))
        several = None if len(payloads.owners) == len(rows) else narrow(counts.astype(np.int64, copy=False))
        return [self._best.to_wire(rows), several, *payloads.keys.to_wire()]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        require(type(wire) is list and len(wire) > 3, "numbers and payloads were expected")
        parts: Any = wire
        best = self._best.from_wire(parts[0], height)
        keys = keys_from_wire(parts[2:])
        owners = np.arange(height)
        if parts[1] is not None:
            counts = widened(parts[1])
            require(not self._first and len(counts) == height and int(counts.min()) >= 1, "counts of payloads")
            require(int(counts.max()) <= keys.rows and int(counts.sum()) == keys.rows > height, "counts of payloads")
            owners = np.repeat(owners, counts)
        require(len(owners) == keys.rows and ascend([owners, *keys.sort_columns()]), "payloads must ascend")
        return self._of(best, Payloads(owners, keys).held())

    # --- objects --------------------------------------------------------------------------------------------------

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        found: list[AnyLattice] = []
        for best, payloads in self._each(rows):
            each: Any = self.inner.bottom()
            each._key, each._payloads = best, set(payloads)
            found.append(each)
        return found

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        best = self._best.of_numbers([each._key for each in lattices])
        owners = np.repeat(np.arange(len(lattices)), [len(each._payloads) for each in lattices])
        keys = key_columns([payload for each in lattices for payload in ordered(each._payloads)])
        if keys is None:
            raise Unfit
        return self._of(best, self._ordered(owners, keys))

    @property
    def size_bytes(self) -> int:
        if self._payloads is None:
            return 0
        return self._best.size_bytes + self._payloads.owners.nbytes + self._payloads.keys.size_bytes


def _payloads_at(column: Any, groups: Groups, hits: Indices) -> Keys:
    """The payloads of these arranged rows. Raises ``Unfit`` where one of any row may have to be refused."""
    rows = hits if groups.order is None else groups.order[hits]
    parts = column if isinstance(column, tuple) else (column,)
    all_ints = all(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in parts)
    keys = key_columns(take(column, rows) if all_ints else column)
    if keys is None:
        raise Unfit
    check_all_texts(keys)
    return keys if all_ints else keys.take(rows)


def _taken(payloads: Payloads, rows: Indices) -> Payloads:
    return Payloads(payloads.owners[rows], payloads.keys.take(rows))


def _in_order(one: Payloads, other: Payloads) -> Payloads:
    """The payloads of both, which have no owner in common."""
    owners = np.concatenate([one.owners, other.owners])
    order = np.argsort(owners, kind="stable")
    return Payloads(owners[order], one.keys.joined(other.keys).take(order))
