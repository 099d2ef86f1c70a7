"""Counted members of each key: pairs of a row and a member, and for each pair a count, as those of a map of counts.

The counts are a leaf of their own, whose rows are the positions of pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints
from wcrdt.lattices.counters import GCounter
from wcrdt.lattices.keyed.int_index import IntIndex
from wcrdt.lattices.keyed.keys import KeyIndex, Unfit, keys_from_wire, numbered_keys
from wcrdt.lattices.keyed.leaves import AnyLattice, Mask
from wcrdt.lattices.keyed.members.pairs import (
    PLACE_BITS,
    PLACES,
    Folded,
    Itself,
    Known,
    PairsLeaf,
    owners_from_wire,
    sizes_to_wire,
)
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.keyed.tallies import CountLeaf


class Prepared(NamedTuple):
    """Members, all pairs that were given, ascending, their positions, which of them are new, and their counts."""

    known: Known
    pairs: Ints
    positions: Ints
    new: Ints
    counts: Any


class CountedLeaf(PairsLeaf):
    """``Counted`` lattices, as ``Bag``: how often each row has each member, by actor."""

    __slots__ = ("_counts",)

    inner: Any

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._counts = CountLeaf(GCounter())

    def _with(self, index: KeyIndex | Itself | None, pairs: IntIndex, counts: CountLeaf) -> Self:
        fresh = self._of(index, pairs)
        fresh._counts = counts
        return fresh

    # --- growing --------------------------------------------------------------------------------------------------

    def prepare(self, rows: Indices, folded: Folded, actor: int, height: int) -> tuple[Prepared, Mask]:
        together, known = self._pairs_of(rows, folded)
        together = np.sort(together)
        starts = np.flatnonzero(np.concatenate([[True], together[1:] != together[:-1]]))
        pairs = together[starts]
        positions, new = self._positions(pairs)
        sizes = {0: np.diff(starts, append=len(together))}
        counts, _ = self._counts.prepare(positions, sizes, actor, self._pairs.count + len(new))
        return Prepared(known, pairs, positions, pairs[new], counts), np.ones(len(rows), np.bool_)

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Prepared, bool]:
        pairs, known = self._pairs_of_other(rows, other)
        positions, new = self._positions(pairs)
        counts, changed = self._counts.prepare_join(positions, other._counts, self._pairs.count + len(new))
        return Prepared(known, pairs, positions, pairs[new], counts), changed or len(new) > 0

    def of_one_actor(self, height: int) -> Self:
        counts = self._counts.of_one_actor(self._pairs.count)
        return self if counts is self._counts else self._with(self._index, self._pairs.copy(), counts)

    def prepare_combine(self, rows: Indices, other: Self, height: int) -> Prepared:
        pairs, known = self._pairs_of_other(rows, other)
        positions, new = self._positions(pairs)
        counts = self._counts.prepare_combine(positions, other._counts, self._pairs.count + len(new))
        return Prepared(known, pairs, positions, pairs[new], counts)

    def _positions(self, pairs: Ints) -> tuple[Ints, Indices]:
        """Where the pairs are, each of which comes once, or will be; and which of them are new."""
        if not self._pairs.count:
            return np.arange(len(pairs)), np.arange(len(pairs))
        positions = self._pairs.find(pairs)
        new = np.flatnonzero(positions < 0)
        positions[new] = np.arange(self._pairs.count, self._pairs.count + len(new))
        return positions, new

    def commit(self, prepared: Prepared) -> None:
        self._commit_members(prepared.known)
        self._pairs.add(prepared.new)
        self._counts.commit(prepared.counts)

    def leq(self, rows: Indices, other: Self) -> bool:
        positions = self._found_in(rows, other)
        return positions is not None and self._counts.leq(positions, other._counts)

    # --- parts and copies -----------------------------------------------------------------------------------------

    def own(self, rows: Indices, actor: int) -> Self:
        hits, owners = self._pairs_at(rows)
        there = np.array(self._counts.own(hits, actor).values(np.arange(len(hits)))) > 0
        hits, owners = hits[there], owners[there]
        pairs = IntIndex(owners << PLACE_BITS | self._pairs.keys[hits] & PLACES)
        return self._with(self._index, pairs, self._counts.own(hits, actor))

    def brought(self, prepared: Prepared, rows: Indices, actor: int) -> Self:
        owners = np.searchsorted(rows, prepared.pairs >> PLACE_BITS)
        pairs = IntIndex(owners << PLACE_BITS | prepared.pairs & PLACES)
        return self._with(self._index, pairs, self._counts.own(prepared.positions, actor))

    def copy(self, rows: int) -> Self:
        return self._with(self._index, self._pairs.copy(), self._counts.copy(self._pairs.count))

    def spread(self, rows: Indices, height: int) -> Self:
        pairs = self._pairs.keys
        spread = IntIndex(rows[pairs >> PLACE_BITS] << PLACE_BITS | pairs & PLACES)
        return self._with(self._index, spread, self._counts.copy(self._pairs.count))

    # --- reading --------------------------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, members: list[Any]) -> list[Any]:
        """Each member as it is read."""

    @abstractmethod
    def _value(self, members: list[Any], counts: list[int]) -> Any:
        """The value of a row with these members, as they are read."""

    def _each(self, rows: Indices, *, read: bool) -> list[tuple[list[Any], list[Any]]]:
        """Of each row the members in their order, and their counts: both as they are read, or keys and lattices."""
        pairs = self._arranged(rows, positions=True)
        if pairs is None:
            return [([], []) for _ in range(len(rows))]
        objects = pairs.members.tolist()
        objects = self._read(objects) if read else objects
        members = [objects[rank] for rank in pairs.ranks.tolist()]
        counts = self._counts.values(pairs.positions) if read else self._counts.lattices(pairs.positions)
        borders = np.searchsorted(pairs.owners, np.arange(len(rows) + 1)).tolist()
        return [(members[a:b], counts[a:b]) for a, b in pairwise(borders)]

    def values(self, rows: Indices) -> list[Any]:
        return [self._value(members, counts) for members, counts in self._each(rows, read=True)]

    def to_wire(self, rows: Indices) -> type_of_wire:
        """``[sizes, ranks, gaps, counts, form of members, their columns ...]``; None where no row has a member.

        ``ranks`` are those of the first member of each row, ``gaps`` say how many ranks lie before each other one.
        """
        pairs = self._arranged(rows, positions=True)
        if pairs is None:
            return None
        first = _first_of_rows(pairs.owners)
        gaps = np.diff(pairs.ranks)[~first[1:]] - 1
        columns = [narrow(pairs.ranks[first]), narrow(gaps), self._counts.to_wire(pairs.positions)]
        return [sizes_to_wire(pairs.owners, len(rows)), *columns, *pairs.members.to_wire()]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        if wire is None:
            return self.empty()
        require(type(wire) is list and len(wire) > 5, "sizes, ranks, gaps, counts and members were expected")
        parts: Any = wire
        members, ranks, gaps = keys_from_wire(parts[4:]), widened(parts[1]), widened(parts[2])
        require(bool((gaps >= 0).all() & (gaps < members.rows).all()), "a gap of no ranks")
        owners = owners_from_wire(parts[0], height, len(ranks) + len(gaps))
        first = _first_of_rows(owners)
        require(int(np.count_nonzero(first)) == len(ranks), "a rank for each key with members was expected")
        steps = np.zeros(len(owners), np.int64)
        steps[~first] = gaps + 1
        reached = np.cumsum(steps)
        starts = np.flatnonzero(first)
        ranks = reached + np.repeat(ranks - reached[starts], np.diff(starts, append=len(owners)))
        fresh = self._pairs_from_wire(owners, ranks, members)
        fresh._counts = self._counts.from_wire(parts[3], fresh._pairs.count)
        return fresh

    # --- objects --------------------------------------------------------------------------------------------------

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        return [
            self.inner.of_counts(dict(zip(members, counts, strict=True)))
            for members, counts in self._each(rows, read=False)
        ]

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        entries = [each.counts() for each in lattices]
        members = [member for each in entries for member in each]
        if not members:
            return self.empty()
        found = numbered_keys(members)
        if found is None:
            raise Unfit
        fresh = self._numbered(np.repeat(np.arange(len(entries)), list(map(len, entries))), found[1], found[0])
        fresh._counts = self._counts.of_lattices([count for each in entries for count in each.values()])
        return fresh

    @property
    def size_bytes(self) -> int:
        return super().size_bytes + self._counts.size_bytes


def _first_of_rows(owners: Ints) -> Mask:
    """Whether a pair is the first one of its row; there is a pair, and rows ascend."""
    return np.concatenate([[True], owners[1:] != owners[:-1]])


class BagLeaf(CountedLeaf):
    """``Bag``: the elements are the members."""

    __slots__ = ()

    def _read(self, members: list[Any]) -> list[Any]:
        return members

    def _value(self, members: list[Any], counts: list[int]) -> dict[Any, int]:
        return dict(zip(members, counts, strict=True))


class QuantilesLeaf(CountedLeaf):
    """``Quantiles``: the members are buckets, which are ints of 32 bits."""

    __slots__ = ()

    itself: ClassVar[Itself] = Itself(-(1 << PLACE_BITS - 1))

    def fold(self, column: Any, groups: Groups) -> Folded:
        try:
            buckets = self.inner.buckets_of(column)
        except (TypeError, ValueError) as error:
            raise Unfit from error
        return super().fold(np.asarray(buckets, np.int64), groups)

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        fresh = super().from_wire(wire, height)
        if fresh._index is not None:
            require(fresh._index is self.itself, "a bucket of no number")
            buckets = self.itself.take(fresh._pairs.keys & PLACES).parts[0]
            require(int(np.abs(buckets).max()) <= self.inner.last_bucket, "a bucket of no number")  # type: ignore[arg-type]
        return fresh

    def _read(self, members: list[int]) -> list[float]:
        return list(map(self.inner.middle_of, members))

    def _value(self, members: list[Any], counts: list[int]) -> Any:
        return self.inner.distribution_of(zip(members, counts, strict=True))
