"""The best pairs of each key: columns of scores and items, in the order of rows, and within a row from the best on.

The columns are replaced as a whole, never edited, so that copies share them. A pair below the k-th of its row is left
out before anything else is done; once the rows are full, that is nearly all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt.codec import require
from wcrdt.column_memory import filled, kept
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints
from wcrdt.lattices.keyed.int_index import with_room
from wcrdt.lattices.keyed.keys import Keys, Unfit, ascend, check_all_texts, key_columns, keys_from_wire
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask, entries_of, numbers_of_column, two_columns
from wcrdt.lattices.keyed.members.pairs import owners_from_wire
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.topk import TopK

_INTS, _FLOATS = "i", "f"


class Pairs(NamedTuple):
    """Scores and items; each pair belongs to its row, or group, in ``owners``."""

    owners: Ints
    scores: NDArray[Any]
    items: Keys

    def take(self, rows: Any) -> Pairs:
        return Pairs(self.owners[rows], self.scores[rows], self.items.take(rows))

    def held(self) -> Pairs:
        """The same for longer, where long columns lie."""
        return Pairs(kept(self.owners), kept(self.scores), self.items.held())

    def joined(self, other: Pairs) -> Pairs:
        owners, scores = np.concatenate([self.owners, other.owners]), np.concatenate([self.scores, other.scores])
        return Pairs(owners, scores, self.items.joined(other.items))


class Prepared(NamedTuple):
    """All pairs that there are then, those that came in, and what the k-th scores of some rows become."""

    pairs: Pairs | None
    new: Pairs | None
    rows: Indices
    floors: NDArray[Any]
    height: int


class RankingLeaf(Leaf):
    """``TopK``, with scores that are all ints of 64 bits or all floats, and items of one form."""

    __slots__ = ("_distinct", "_floors", "_k", "_pairs")

    inner: TopK[Any, Any]

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        k, distinct = self.inner.shape()
        self._k, self._distinct = int(k), bool(distinct)
        self._pairs: Pairs | None = None
        self._floors: NDArray[Any] | None = None  # of each row the k-th score, the lowest while there are fewer

    def empty(self) -> Self:
        return type(self)(self.inner)

    def _of(self, pairs: Pairs | None) -> Self:
        fresh = self.empty()
        fresh._pairs = pairs if pairs is not None and len(pairs.owners) else None
        return fresh

    # --- growing --------------------------------------------------------------------------------------------------

    def fold(self, column: Any, groups: Groups) -> Pairs:
        given, members = two_columns(column)
        scores = numbers_of_column(given)
        if scores.dtype.kind == "f":
            if np.isnan(scores).any():
                raise Unfit
            scores = scores + 0.0  # minus zero is zero
        items = key_columns(members)
        if items is None:
            raise Unfit
        check_all_texts(items)
        return Pairs(groups.ordinals(), scores, items)

    def _floors_of(self, height: int, dtype: Any) -> NDArray[Any]:
        """By row the score that a pair has to have to come in; not to be written. Raises ``Unfit``."""
        lowest = _lowest(dtype)
        if self._pairs is None:
            return filled(height, lowest, dtype)
        if self._pairs.scores.dtype != dtype:
            raise Unfit
        if self._floors is None:
            self._floors = kept(_kth_scores(self._pairs, self._k, np.arange(height)))
        self._floors = with_room(self._floors, height, lowest)
        return self._floors

    def prepare(self, rows: Indices, folded: Pairs, actor: int, height: int) -> tuple[Prepared, Mask]:
        floors = self._floors_of(height, folded.scores.dtype)
        owners = rows[folded.owners]
        given = np.flatnonzero(folded.scores >= floors[owners])
        if self._pairs is not None and self._pairs.items.form != folded.items.form:
            raise Unfit
        changed = np.zeros(height, np.bool_)
        if not len(given):
            return Prepared(self._pairs, None, given, floors[:0], height), changed[rows]
        come = Pairs(owners[given], folded.scores[given], folded.items.take(given))
        affected = np.zeros(height, np.bool_)
        affected[come.owners] = True
        mine = affected[self._pairs.owners] if self._pairs is not None else np.zeros(0, np.bool_)
        own = come.take(_NO_ROWS) if self._pairs is None else self._pairs.take(np.flatnonzero(mine))
        joined, new = self._ranked(own.joined(come), len(own.owners))
        if not new.any():
            return Prepared(self._pairs, None, given[:0], floors[:0], height), changed[rows]
        news = joined.take(np.flatnonzero(new))
        changed[news.owners] = True
        again = np.flatnonzero(affected)
        floors_after = _kth_scores(joined, self._k, again)
        if self._pairs is not None and not mine.all():
            joined = _in_order(self._pairs.take(np.flatnonzero(~mine)), joined)
        return Prepared(joined, news, again, floors_after, height), changed[rows]

    def _ranked(self, pairs: Pairs, known: int) -> tuple[Pairs, Mask]:
        """The best of each owner, in order; and which of them are new, and not among the first ``known`` given."""
        items = pairs.items.sort_columns()
        comes = np.arange(len(pairs.owners)) >= known
        falling = _falling(pairs.scores)
        order = np.lexsort([comes, falling, *items[::-1], pairs.owners])
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in [pairs.owners, *items] if self._distinct else [pairs.owners, *items, falling]:
            arranged = column[order]
            same &= arranged[1:] == arranged[:-1]
        best = order[np.concatenate([[True], ~same])]
        best = best[np.lexsort([falling[best], pairs.owners[best]])]  # stable: items stay in order
        owners = pairs.owners[best]
        starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
        places = np.arange(len(best)) - np.repeat(starts, np.diff(starts, append=len(best)))
        best = best[places < self._k]
        return pairs.take(best), comes[best]

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Prepared, bool]:
        if other._pairs is None:
            return Prepared(self._pairs, None, _NO_ROWS, np.empty(0), height), False
        prepared, _ = self.prepare(rows, other._pairs, 0, height)
        return prepared, prepared.new is not None

    def commit(self, prepared: Prepared) -> None:
        if prepared.new is None:
            return
        assert prepared.pairs is not None, "some came in"
        floors = self._floors_of(prepared.height, prepared.new.scores.dtype)
        floors[prepared.rows] = prepared.floors
        self._pairs, self._floors = prepared.pairs.held(), floors

    def leq(self, rows: Indices, other: Self) -> bool:
        if self._pairs is None:
            return True
        last = -1 if other._pairs is None else int(other._pairs.owners[-1])
        return not other.prepare_join(rows, self, max(int(rows.max()), last) + 1)[1]

    # --- parts and copies -----------------------------------------------------------------------------------------

    def _at(self, rows: Indices) -> Pairs | None:
        """The pairs of these rows, which own them by their place."""
        pairs = self._pairs
        if pairs is None:
            return None
        order, owners = entries_of(pairs.owners, rows)
        return Pairs(owners, pairs.scores[order], pairs.items.take(order)) if len(order) else None

    def own(self, rows: Indices, actor: int) -> Self:
        return self._of(self._at(rows))

    def brought(self, prepared: Prepared, rows: Indices, actor: int) -> Self:
        new = prepared.new
        return self._of(None if new is None else new._replace(owners=np.searchsorted(rows, new.owners)))

    def copy(self, rows: int) -> Self:
        return self._of(self._pairs)

    def spread(self, rows: Indices, height: int) -> Self:
        if self._pairs is None:
            return self.empty()
        owners = rows[self._pairs.owners]
        order = np.argsort(owners, kind="stable")
        return self._of(Pairs(owners[order], self._pairs.scores[order], self._pairs.items.take(order)).held())

    # --- reading --------------------------------------------------------------------------------------------------

    def values(self, rows: Indices) -> list[Any]:
        pairs = self._at(rows)
        if pairs is None:
            return [() for _ in range(len(rows))]
        each = list(zip(pairs.scores.tolist(), pairs.items.tolist(), strict=True))
        borders = np.searchsorted(pairs.owners, np.arange(len(rows) + 1)).tolist()
        return [tuple(each[a:b]) for a, b in pairwise(borders)]

    def to_wire(self, rows: Indices) -> type_of_wire:
        """``[numbers of pairs, kind of scores, scores, form of items, their columns ...]``; None where none has one."""
        pairs = self._at(rows)
        if pairs is None:
            return None
        sizes = np.bincount(pairs.owners, minlength=len(rows)).astype(np.int64, copy=False)
        several = None if bool((sizes == 1).all()) else narrow(sizes)
        scores = pairs.scores
        packed = [_FLOATS, scores.astype("<f8").tobytes()] if scores.dtype.kind == "f" else [_INTS, narrow(scores)]
        return [several, *packed, *pairs.items.to_wire()]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        if wire is None:
            return self.empty()
        require(type(wire) is list and len(wire) > 4, "numbers of pairs, scores and items were expected")
        parts: Any = wire
        items, scores = keys_from_wire(parts[3:]), scores_from_wire(parts[1], parts[2])
        require(len(scores) == items.rows, "a score for each item was expected")
        owners = owners_from_wire(parts[0], height, items.rows)
        require(int(np.bincount(owners).max()) <= self._k, f"more than {self._k} pairs")
        columns = items.sort_columns()
        require(ascend([owners, _falling(scores), *columns]), "pairs must be in order, each once")
        if self._distinct:
            by_item = [owners, *columns]
            order = np.lexsort(by_item[::-1])
            require(ascend([column[order] for column in by_item]), "an item is there twice")
        return self._of(Pairs(owners, scores, items).held())

    # --- objects --------------------------------------------------------------------------------------------------

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        found: list[AnyLattice] = []
        for pairs in self.values(rows):
            each = self.inner.bottom()
            each._pairs = {pair[1] if self._distinct else pair: pair for pair in pairs}
            found.append(each)
        return found

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        pairs = [pair for each in lattices for pair in each._pairs.values()]
        if not pairs:
            return self.empty()
        scores, items = numbers_of_column([score for score, _ in pairs]), key_columns([item for _, item in pairs])
        if items is None:
            raise Unfit
        owners = np.repeat(np.arange(len(lattices)), [len(each._pairs) for each in lattices])
        return self._of(Pairs(owners, scores, items))

    @property
    def size_bytes(self) -> int:
        if self._pairs is None:
            return 0
        floors = 0 if self._floors is None else self._floors.nbytes
        return self._pairs.owners.nbytes + self._pairs.scores.nbytes + self._pairs.items.size_bytes + floors


def scores_from_wire(kind: Any, data: Any) -> NDArray[Any]:
    """Inverse of how ``to_wire`` writes scores. Raises as decoders do."""
    if kind == _INTS:
        return widened(data)
    require(kind == _FLOATS and isinstance(data, bytes), "no kind of scores")
    scores = np.frombuffer(data, "<f8").astype(np.float64)
    require(not np.isnan(scores).any() and not np.signbit(scores[scores == 0]).any(), "NaN, or minus zero")
    return scores


def _falling(scores: NDArray[Any]) -> NDArray[Any]:
    """Numbers that ascend where scores fall; no int overflows."""
    return -scores if scores.dtype.kind == "f" else ~scores


def _lowest(dtype: Any) -> Any:
    return -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(np.int64).min


def _kth_scores(pairs: Pairs, k: int, rows: Indices) -> NDArray[Any]:
    """The score of the k-th pair of each row, the lowest for those that have fewer."""
    begins, ends = (np.searchsorted(pairs.owners, rows, side) for side in ("left", "right"))
    found = np.full(len(rows), _lowest(pairs.scores.dtype), pairs.scores.dtype)
    full = ends - begins >= k
    found[full] = pairs.scores[ends[full] - 1]
    return found


def _in_order(one: Pairs, other: Pairs) -> Pairs:
    """The pairs of both, which have no owner in common."""
    both = one.joined(other)
    return both.take(np.argsort(both.owners, kind="stable"))


_NO_ROWS = np.empty(0, np.intp)
