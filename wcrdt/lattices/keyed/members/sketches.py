"""Theta sketches of each key: hashes in the order of rows, and ascending within a row, with a bound for each row.

A row holds its smallest hashes, at most ``k``, and the next one as bound. A hash that is not below the bound of its row
is left out first. Others wait until they are a share of all. Then all are sorted, and the largest ones of each row go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.column_memory import copied, filled, kept
from wcrdt.elements import plain
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, int_column, rows_of
from wcrdt.lattices.keyed.int_index import with_room
from wcrdt.lattices.keyed.keys import Unfit, check_texts
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask
from wcrdt.lattices.keyed.members.murmur import hashes_of_ints, hashes_of_texts
from wcrdt.lattices.keyed.members.pairs import NOTHING, owners_from_wire, sizes_to_wire
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.keyed.spans import KeySpans
from wcrdt.lattices.theta import UNBOUNDED, ThetaSketch, hashable

_LEAST_WAITING = 1 << 16
_WAITING = 3
"""So many hashes wait at least, and one for so many that are sorted, before all are sorted."""


class Hashes(NamedTuple):
    """Hashes, each of the row, or the group, in ``owners``."""

    owners: Ints
    numbers: Ints

    def take(self, rows: Any) -> Hashes:
        return Hashes(self.owners[rows], self.numbers[rows])


class Prepared(NamedTuple):
    """Hashes that come in, and what the bounds of some rows become."""

    new: Hashes
    rows: Indices
    bounds: Ints
    height: int


class SketchLeaf(Leaf):
    """``ThetaSketch``, of any elements."""

    __slots__ = ("_bounds", "_k", "_lowered", "_numbers", "_starts", "_waiting")

    inner: ThetaSketch

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._k = 1 << self.inner.shape()
        self._numbers = NOTHING  # replaced as a whole, so that copies share it
        self._starts: Any = np.zeros(1, np.int32)  # where each row begins there, and the last one ends
        self._bounds: Ints | None = None  # by row; None while all elements are there
        self._lowered = False  # there may be hashes above their bounds
        self._waiting: list[Hashes] = []

    def empty(self) -> Self:
        return type(self)(self.inner)

    def _of(self, sizes: Ints, numbers: Ints, bounds: Ints | None) -> Self:
        fresh = self.empty()
        fresh._take(sizes, numbers)
        fresh._bounds = bounds
        return fresh

    def _take(self, sizes: Ints, numbers: Ints) -> None:
        kind = np.int32 if len(numbers) < 1 << 31 else np.int64
        self._starts = filled(len(sizes) + 1, 0, kind)
        np.cumsum(sizes, out=self._starts[1:])
        self._numbers = kept(numbers)

    # --- growing --------------------------------------------------------------------------------------------------

    def fold(self, column: Any, groups: Groups) -> Hashes:
        numbers = _hashed(column)
        possible = (numbers > 0) & (numbers < UNBOUNDED)  # no sketch holds another one
        found = Hashes(groups.ordinals(), numbers)
        return found if possible.all() else found.take(possible)

    def prepare(self, rows: Indices, folded: Hashes, actor: int, height: int) -> tuple[Prepared, Mask]:
        given = Hashes(rows[folded.owners], folded.numbers)
        if self._bounds is not None:
            given = given.take(given.numbers < self._bounds_at(given.owners))
        new = self._new(_sorted(given))
        gains = np.zeros(height, np.bool_)
        gains[new.owners] = True
        return Prepared(new, NOTHING, NOTHING, height), gains[rows]

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Prepared, bool]:
        self._settle()
        other._settle()
        owners = rows[other._owners()]
        lower, bounds = NOTHING, NOTHING
        if other._bounds is not None:
            theirs = other._bounds_at(np.arange(len(rows)))
            falls = theirs < self._bounds_at(rows)
            lower, bounds = rows[falls], theirs[falls]
        given = Hashes(owners, other._numbers)
        if self._bounds is not None:
            given = given.take(given.numbers < self._bounds_at(owners))
        new = self._new(given)
        return Prepared(new, lower, bounds, height), len(new.owners) > 0 or len(lower) > 0

    def _new(self, given: Hashes) -> Hashes:
        """Those that are not among the sorted ones."""
        starts, numbers = self._starts, self._numbers
        if not len(numbers) or not len(given.owners):
            return given
        known = len(starts) - 1
        low = starts[np.minimum(given.owners, known)]
        high = starts[np.minimum(given.owners + 1, known)]
        end, last = high, len(numbers) - 1
        for _ in range(int((high - low).max()).bit_length()):
            middle = (low + high) >> 1
            below = (numbers[np.minimum(middle, last)] < given.numbers) & (middle < high)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        there = (low < end) & (numbers[np.minimum(low, last)] == given.numbers)
        return given.take(~there) if there.any() else given

    def commit(self, prepared: Prepared) -> None:
        new = prepared.new
        if len(prepared.rows):
            self._bounds = bounds = self._all_bounds(prepared.height)
            bounds[prepared.rows] = prepared.bounds
            self._lowered = True
        if len(new.owners):
            self._waiting.append(Hashes(kept(new.owners), kept(new.numbers)))
            if sum(len(each.owners) for each in self._waiting) > max(_LEAST_WAITING, len(self._numbers) // _WAITING):
                self._settle()

    def leq(self, rows: Indices, other: Self) -> bool:
        return not other.prepare_join(rows, self, int(rows.max(initial=-1)) + 1)[1]

    # --- order ----------------------------------------------------------------------------------------------------

    def _owners(self) -> Ints:
        """The row of each hash that is sorted."""
        return np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))

    def _all_bounds(self, height: int) -> Ints:
        """Bounds of so many rows at least, to be written."""
        return with_room(NOTHING if self._bounds is None else self._bounds, height, UNBOUNDED)

    def _bounds_at(self, rows: Indices) -> Ints:
        known = 0 if self._bounds is None else len(self._bounds)
        if self._bounds is None or not known:
            return np.full(len(rows), UNBOUNDED)
        return np.where(rows < known, self._bounds[np.minimum(rows, known - 1)], UNBOUNDED)

    def _settle(self) -> None:
        """Bring what waits among the sorted hashes, and leave out what is too many."""
        if not self._waiting and not self._lowered:
            return
        given = [Hashes(self._owners(), self._numbers), *self._waiting]
        together = _sorted(Hashes(*map(np.concatenate, zip(*given, strict=True))))
        if self._lowered:
            together = together.take(together.numbers < self._bounds_at(together.owners))
        height = max(len(self._starts) - 1, int(together.owners.max(initial=-1)) + 1)
        sizes = np.bincount(together.owners, minlength=height)
        over = np.flatnonzero(sizes > self._k)
        if len(over):
            starts = np.cumsum(sizes) - sizes
            self._bounds = bounds = self._all_bounds(height)
            bounds[over] = together.numbers[starts[over] + self._k]
            places = np.arange(len(together.owners)) - starts[together.owners]
            together, sizes = together.take(places < self._k), np.minimum(sizes, self._k)
        self._take(sizes, together.numbers)
        self._waiting, self._lowered = [], False

    # --- parts and copies -----------------------------------------------------------------------------------------

    def _at(self, rows: Indices) -> tuple[Ints, Ints]:
        """The sizes of these rows, and their hashes."""
        self._settle()
        known = len(self._starts) - 1
        begins = self._starts[np.minimum(rows, known)].astype(np.int64)
        sizes = self._starts[np.minimum(rows + 1, known)] - begins
        firsts = np.cumsum(sizes) - sizes
        return sizes, self._numbers[np.repeat(begins - firsts, sizes) + np.arange(int(sizes.sum()))]

    def own(self, rows: Indices, actor: int) -> Self:
        sizes, numbers = self._at(rows)  # this makes bounds
        return self._of(sizes, numbers, None if self._bounds is None else self._bounds_at(rows))

    def brought(self, prepared: Prepared, rows: Indices, actor: int) -> Self:
        fresh = self.empty()
        fresh._waiting = [Hashes(np.searchsorted(rows, prepared.new.owners), prepared.new.numbers)]
        return fresh

    def copy(self, rows: int) -> Self:
        fresh = self.empty()
        fresh._numbers, fresh._starts = self._numbers, self._starts
        fresh._bounds = None if self._bounds is None else copied(self._bounds)
        fresh._lowered, fresh._waiting = self._lowered, list(self._waiting)
        return fresh

    def spread(self, rows: Indices, height: int) -> Self:
        self._settle()
        order = np.argsort(rows)
        taken, numbers = self._at(order)
        sizes = np.zeros(height, np.int64)
        sizes[rows[order]] = taken
        fresh = self._of(sizes, numbers, None)
        if self._bounds is not None:
            fresh._bounds = bounds = np.full(height, UNBOUNDED)
            bounds[rows] = self._bounds_at(np.arange(len(rows)))
        return fresh

    # --- reading --------------------------------------------------------------------------------------------------

    def columns(self, rows: Indices) -> Any:
        sizes, _ = self._at(rows)
        return sizes / (self._bounds_at(rows) / float(UNBOUNDED))

    def values(self, rows: Indices) -> list[Any]:
        return self.columns(rows).tolist()

    def to_wire(self, rows: Indices) -> type_of_wire:
        """``[sizes, bounds of full rows, hashes]``; None where no row has one, and for bounds where none has one."""
        sizes, numbers = self._at(rows)
        if not len(numbers):
            return None
        full = self._bounds_at(rows[sizes == self._k])
        bounds = narrow(full) if (full < UNBOUNDED).any() else None
        return [
            sizes_to_wire(np.repeat(np.arange(len(rows)), sizes), len(rows)),
            bounds,
            numbers.astype("<i8").tobytes(),
        ]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        if wire is None:
            return self.empty()
        require(type(wire) is list and len(wire) == 3 and type(wire[2]) is bytes, "sizes, bounds and hashes")  # type: ignore[index]
        parts: Any = wire
        numbers = np.frombuffer(parts[2], "<i8").astype(np.int64)
        owners = owners_from_wire(parts[0], height, len(numbers))
        sizes = np.bincount(owners, minlength=height)
        require(len(numbers) > 0 and int(sizes.max()) <= self._k, "a sketch holds too many hashes")
        rises = (owners[1:] > owners[:-1]) | (numbers[1:] > numbers[:-1])
        require(bool(rises.all()) and int(numbers.min()) > 0 and int(numbers.max()) < UNBOUNDED, "hashes must ascend")
        if parts[1] is None:
            return self._of(sizes, numbers, None)
        full, given = np.flatnonzero(sizes == self._k), widened(parts[1])
        require(len(given) == len(full) and bool((given < UNBOUNDED).any()), "a bound for each full sketch")
        require(bool((given > numbers[np.cumsum(sizes)[full] - 1]).all()), "a bound is below a hash")
        bounds = np.full(height, UNBOUNDED)
        bounds[full] = given
        return self._of(sizes, numbers, bounds)

    # --- objects --------------------------------------------------------------------------------------------------

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        sizes, numbers = self._at(rows)
        ends = np.cumsum(sizes).tolist()
        bounds = self._bounds_at(rows).tolist()
        begins = [0, *ends]
        return [
            self.inner.of_hashes(numbers[begin:end], bound)
            for begin, end, bound in zip(begins, ends, bounds, strict=False)
        ]

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        found = [each.hashes() for each in lattices]
        bounds = np.array([bound for _, bound in found], np.int64)
        numbers = np.concatenate([numbers for numbers, _ in found])
        sizes = np.array([len(numbers) for numbers, _ in found])
        return self._of(sizes, numbers, bounds if (bounds < UNBOUNDED).any() else None)

    @property
    def size_bytes(self) -> int:
        bounds = 0 if self._bounds is None else self._bounds.nbytes
        waiting = sum(each.owners.nbytes + each.numbers.nbytes for each in self._waiting)
        return self._numbers.nbytes + self._starts.nbytes + bounds + waiting


def _sorted(given: Hashes) -> Hashes:
    """The same, by owner and hash, each once."""
    owners, numbers = given
    if len(owners) < 2:
        return given
    bits = int(owners.max()).bit_length()
    ranks = owners << (63 - bits) | numbers >> bits
    order = np.argsort(ranks)
    owners, numbers = owners[order], numbers[order]
    falls = (owners[1:] == owners[:-1]) & (numbers[1:] < numbers[:-1])
    if falls.any():  # where the first bits of hashes of one row are the same
        order = np.lexsort([numbers, owners])
        owners, numbers = owners[order], numbers[order]
    differs = np.concatenate([[True], (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])])
    return Hashes(owners, numbers) if differs.all() else Hashes(owners[differs], numbers[differs])


def _hashed(column: Any) -> Ints:
    """The hash of each element. Raises ``Unfit``, also for one that is to be refused."""
    ints = int_column(column)
    if ints is not None:
        return hashes_of_ints(ints)
    if (utf8 := getattr(column, "utf8", None)) is not None:
        spans = KeySpans(*utf8())
        if int(spans.lengths.min(initial=1)):
            try:
                check_texts(spans)
            except UnicodeDecodeError as error:
                raise Unfit from error
            return hashes_of_texts(spans)
    try:
        elements = [hashable(plain(element)) for element in rows_of(column)]
    except (TypeError, ValueError) as error:
        raise Unfit from error
    found = np.empty(len(elements), np.int64)
    is_text = np.array([type(element) is str for element in elements])
    texts = [element.encode() for element in elements if type(element) is str]
    found[is_text] = hashes_of_texts(KeySpans.of(texts))
    found[~is_text] = hashes_of_ints(np.array([element for element in elements if type(element) is int], np.int64))
    return found
