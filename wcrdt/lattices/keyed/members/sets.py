"""Sets of each key: pairs of a row and a member."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.elements import ordered
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Indices, Ints
from wcrdt.lattices.keyed.int_index import IntIndex
from wcrdt.lattices.keyed.keys import Unfit, keys_from_wire, numbered_keys
from wcrdt.lattices.keyed.leaves import AnyLattice, Mask
from wcrdt.lattices.keyed.members.pairs import (
    PLACE_BITS,
    PLACES,
    Folded,
    Known,
    PairsLeaf,
    new_pairs,
    owners_from_wire,
    sizes_to_wire,
)
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.sets import CountDistinct, GrowingSet


class Prepared(NamedTuple):
    """Members, and pairs that are new."""

    known: Known
    pairs: Ints


class SetLeaf(PairsLeaf):
    """``GSet`` and ``CountDistinct``."""

    __slots__ = ()

    inner: GrowingSet[Any, Any]

    # --- growing --------------------------------------------------------------------------------------------------

    def prepare(self, rows: Indices, folded: Folded, actor: int, height: int) -> tuple[Prepared, Mask]:
        pairs, known = self._pairs_of(rows, folded)
        new = new_pairs(self._pairs, pairs)
        gains = np.zeros(height, np.bool_)
        gains[new >> PLACE_BITS] = True
        return Prepared(known, new), gains[rows]

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Prepared, bool]:
        pairs, known = self._pairs_of_other(rows, other)
        new = new_pairs(self._pairs, pairs)
        return Prepared(known, new), len(new) > 0

    def commit(self, prepared: Prepared) -> None:
        self._commit_members(prepared.known)
        self._pairs.add(prepared.pairs)

    def leq(self, rows: Indices, other: Self) -> bool:
        return self._found_in(rows, other) is not None

    # --- parts and copies -----------------------------------------------------------------------------------------

    def own(self, rows: Indices, actor: int) -> Self:
        hits, owners = self._pairs_at(rows)
        return self._of(self._index, IntIndex(owners << PLACE_BITS | self._pairs.keys[hits] & PLACES))

    def brought(self, prepared: Prepared, rows: Indices, actor: int) -> Self:
        owners = np.searchsorted(rows, prepared.pairs >> PLACE_BITS)
        return self._of(self._index, IntIndex(owners << PLACE_BITS | prepared.pairs & PLACES))

    def copy(self, rows: int) -> Self:
        return self._of(self._index, self._pairs.copy())

    def spread(self, rows: Indices, height: int) -> Self:
        pairs = self._pairs.keys
        return self._of(self._index, IntIndex(rows[pairs >> PLACE_BITS] << PLACE_BITS | pairs & PLACES))

    # --- reading --------------------------------------------------------------------------------------------------

    def _each(self, rows: Indices) -> list[list[Any]]:
        """The members of each row, in their order."""
        sets = self._arranged(rows)
        if sets is None:
            return [[] for _ in range(len(rows))]
        objects = sets.members.tolist()
        members = [objects[rank] for rank in sets.ranks.tolist()]
        borders = np.searchsorted(sets.owners, np.arange(len(rows) + 1)).tolist()
        return [members[a:b] for a, b in pairwise(borders)]

    def _sizes(self, rows: Indices) -> Ints:
        return np.bincount(self._pairs_at(rows)[1], minlength=len(rows)).astype(np.int64, copy=False)

    def values(self, rows: Indices) -> list[Any]:
        if isinstance(self.inner, CountDistinct):
            return self._sizes(rows).tolist()
        return list(map(tuple, self._each(rows)))

    def columns(self, rows: Indices) -> Any:
        return self._sizes(rows) if isinstance(self.inner, CountDistinct) else self.values(rows)

    def to_wire(self, rows: Indices) -> type_of_wire:
        """``[sizes, ranks, form of members, their columns ...]``; None where all sets are empty, and for sizes of 1."""
        sets = self._arranged(rows)
        if sets is None:
            return None
        return [sizes_to_wire(sets.owners, len(rows)), narrow(sets.ranks), *sets.members.to_wire()]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        if wire is None:
            return self.empty()
        require(type(wire) is list and len(wire) > 3, "sizes, ranks and members of sets were expected")
        parts: Any = wire
        members, ranks = keys_from_wire(parts[2:]), widened(parts[1])
        return self._pairs_from_wire(owners_from_wire(parts[0], height, len(ranks)), ranks, members)

    # --- objects --------------------------------------------------------------------------------------------------

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        found: list[AnyLattice] = []
        for members in self._each(rows):
            each = self.inner.bottom()
            each._members = set(members)
            found.append(each)
        return found

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        members = [member for each in lattices for member in ordered(each._members)]
        if not members:
            return self.empty()
        found = numbered_keys(members)
        if found is None:
            raise Unfit
        owners = np.repeat(np.arange(len(lattices)), [len(each._members) for each in lattices])
        return self._numbered(owners, found[1], found[0])
