"""Sets of each key: an index of pairs, each of a row and a member.

A member is a place in an index that a map and what was made of it (copies, deltas) share, and which only grows. So a
member that many keys have is held once, and a set of any size is found and added to without reading the others.
Ints of 32 bits are their own places, as long as all members are such.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.distinct import distinct, numbered
from wcrdt.elements import ordered
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, int_column
from wcrdt.lattices.keyed.int_index import IntIndex
from wcrdt.lattices.keyed.keys import KeyIndex, Keys, Unfit, check_all_texts, keys_from_wire, numbered_keys
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.sets import CountDistinct, GrowingSet

_PLACE_BITS = 32
_PLACES = (1 << _PLACE_BITS) - 1


class Itself:
    """The index of ints from 0 on that have 32 bits: each is at the place that it is."""

    form = "i"
    size_bytes = 0

    @staticmethod
    def take(places: Ints) -> Keys:
        """The members at these places."""
        return Keys("i", [places])

    @staticmethod
    def find(members: Keys) -> tuple[Ints, Ints]:
        """As ``KeyIndex.find``: -1 for what has no place."""
        numbers = members.parts[0]
        assert isinstance(numbers, np.ndarray), members.form
        return np.where((numbers >= 0) & (numbers <= _PLACES), numbers, -1), _NONE

    @staticmethod
    def has(members: Keys) -> bool:
        """Whether all of them have places; there is one at least."""
        if members.form != "i":
            return False
        numbers: Any = members.parts[0]
        return int(numbers.min()) >= 0 and int(numbers.max()) <= _PLACES


ITSELF = Itself()


class Folded(NamedTuple):
    """Rows of elements: the group of each, and its place among the distinct ones; None where those are the rows."""

    groups: Ints
    places: Ints | None
    members: Keys


class Prepared(NamedTuple):
    """Pairs that are new, the index of their members, and what has to be added to it before."""

    known: KeyIndex | Itself | None
    members: Keys | None
    numbers: Ints
    pairs: Ints


class Sets(NamedTuple):
    """Pairs in the order of rows, and in that of members within a row; ``ranks`` are places in ``members``.

    ``members`` ascend, each is there once, and each is in a set.
    """

    owners: Ints
    ranks: Ints
    members: Keys


class SetLeaf(Leaf):
    """``GSet`` and ``CountDistinct`` of members of one form: ints, texts, bytes, or tuples of these."""

    __slots__ = ("_index", "_pairs")

    inner: GrowingSet[Any, Any]

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._index: KeyIndex | Itself | None = None
        self._pairs = IntIndex()  # of row << 32 | place

    def empty(self) -> Self:
        return type(self)(self.inner)

    def _of(self, index: KeyIndex | Itself | None, pairs: IntIndex) -> Self:
        fresh = self.empty()
        fresh._index, fresh._pairs = index, pairs
        return fresh

    # --- growing --------------------------------------------------------------------------------------------------

    def fold(self, column: Any, groups: Groups) -> Folded:
        numbers = int_column(column)
        if numbers is not None and ITSELF.has(Keys("i", [numbers])):
            return Folded(groups.ordinals(), None, Keys("i", [numbers]))
        found = numbered_keys(column)
        if found is None:
            raise Unfit
        return Folded(groups.ordinals(), found[1], found[0])

    def prepare(self, rows: Indices, folded: Folded, actor: int, height: int) -> tuple[Prepared, Mask]:
        at, given = folded.places, folded.members
        if at is None and isinstance(self._index, KeyIndex):
            found = numbered_keys(given.parts[0])
            assert found is not None, "ints are keys"
            given, at = found
        places, index, members, numbers = self._places(given)
        pairs = rows[folded.groups] << _PLACE_BITS | (places if at is None else places[at])
        prepared = self._new(pairs, index, members, numbers)
        gains = np.zeros(height, np.bool_)
        gains[prepared.pairs >> _PLACE_BITS] = True
        return prepared, gains[rows]

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Prepared, bool]:
        theirs = other._pairs.keys
        if other._index is None:
            return Prepared(self._index, None, _NONE, _NONE), False
        places, index, members, numbers = theirs & _PLACES, other._index, None, _NONE
        if self._index is not None and self._index is not other._index:
            used, at = _used(places, other._index)
            found, index, members, numbers = self._places(other._index.take(used))
            places = found[at]
        prepared = self._new(rows[theirs >> _PLACE_BITS] << _PLACE_BITS | places, index, members, numbers)
        return prepared, len(prepared.pairs) > 0

    def _places(self, members: Keys) -> tuple[Ints, KeyIndex | Itself | None, Keys | None, Ints]:
        """A place for each, the index, members that are new there, and the numbers by which it adds these.

        Members may come twice where they are their own places. Raises ``Unfit``.
        """
        if self._index is None or self._index is ITSELF:
            if ITSELF.has(members):
                return ITSELF.find(members)[0], ITSELF, None, _NONE
            self._number()
        if self._index is None:
            check_all_texts(members)
            return np.arange(members.rows), None, members, _NONE
        assert isinstance(self._index, KeyIndex), "members have been numbered"
        if self._index.form != members.form:
            raise Unfit
        places, numbers = self._index.find(members)
        new = np.flatnonzero(places < 0)
        places[new] = np.arange(self._index.count, self._index.count + len(new))
        if not len(new):
            return places, self._index, None, _NONE
        given = members.take(new)
        check_all_texts(given)
        return places, self._index, given, numbers[new]

    def _number(self) -> None:
        """Go on with an index of all members, where they were their own places."""
        pairs, self._index = self._pairs.keys, None
        if len(pairs):
            members, places = numbered(pairs & _PLACES)
            self._index = KeyIndex.of(Keys("i", [members]))
            self._pairs = IntIndex(pairs >> _PLACE_BITS << _PLACE_BITS | places)

    def _new(self, pairs: Ints, index: KeyIndex | Itself | None, members: Keys | None, numbers: Ints) -> Prepared:
        if self._pairs.count:
            pairs = pairs[self._pairs.find(pairs) < 0]
        return Prepared(index, members, numbers, distinct(pairs) if len(pairs) else _NONE)

    def commit(self, prepared: Prepared) -> None:
        index = prepared.known
        if prepared.members is not None:
            if isinstance(index, KeyIndex):
                index.add(prepared.members, prepared.numbers)
            else:
                index = KeyIndex.of(prepared.members)
        self._index = index
        self._pairs.add(prepared.pairs)

    def leq(self, rows: Indices, other: Self) -> bool:
        if self._index is None or not self._pairs.count:
            return True
        mine = self._pairs.keys
        places = mine & _PLACES
        if other._index is None:
            return False
        if self._index is not other._index:
            used, at = _used(places, self._index)
            members = self._index.take(used)
            if members.form != other._index.form:
                return False
            found, _ = other._index.find(members)
            if (found < 0).any():
                return False
            places = found[at]
        return bool((other._pairs.find(rows[mine >> _PLACE_BITS] << _PLACE_BITS | places) >= 0).all())

    # --- parts and copies -----------------------------------------------------------------------------------------

    def own(self, rows: Indices, actor: int) -> Self:
        pairs = self._pairs.keys
        owners, hits = _owners(pairs, rows)
        return self._of(self._index, IntIndex(owners << _PLACE_BITS | pairs[hits] & _PLACES))

    def brought(self, prepared: Prepared, rows: Indices, actor: int) -> Self:
        owners = np.searchsorted(rows, prepared.pairs >> _PLACE_BITS)
        return self._of(self._index, IntIndex(owners << _PLACE_BITS | prepared.pairs & _PLACES))

    def copy(self, rows: int) -> Self:
        return self._of(self._index, self._pairs.copy())

    def spread(self, rows: Indices, height: int) -> Self:
        pairs = self._pairs.keys
        return self._of(self._index, IntIndex(rows[pairs >> _PLACE_BITS] << _PLACE_BITS | pairs & _PLACES))

    # --- reading --------------------------------------------------------------------------------------------------

    def _sets(self, rows: Indices) -> Sets | None:
        """The sets of these rows, which own them by their place; None where all of them are empty."""
        pairs = self._pairs.keys
        owners, hits = _owners(pairs, rows)
        if self._index is None or not len(owners):
            return None
        used, at = _used(pairs[hits] & _PLACES, self._index)
        members = self._index.take(used)
        order = members.order()
        if order is not None:
            members, ranks = members.take(order), np.empty(len(used), np.int64)
            ranks[order] = np.arange(len(used))
            at = ranks[at]
        bits = len(used).bit_length()
        together = np.sort(owners << bits | at)
        return Sets(together >> bits, together & ((1 << bits) - 1), members)

    def _each(self, rows: Indices) -> list[list[Any]]:
        """The members of each row, in their order."""
        sets = self._sets(rows)
        if sets is None:
            return [[] for _ in range(len(rows))]
        objects = sets.members.tolist()
        members = [objects[rank] for rank in sets.ranks.tolist()]
        borders = np.searchsorted(sets.owners, np.arange(len(rows) + 1)).tolist()
        return [members[a:b] for a, b in pairwise(borders)]

    def _sizes(self, rows: Indices) -> Ints:
        return np.bincount(_owners(self._pairs.keys, rows)[0], minlength=len(rows)).astype(np.int64, copy=False)

    def values(self, rows: Indices) -> list[Any]:
        if isinstance(self.inner, CountDistinct):
            return self._sizes(rows).tolist()
        return list(map(tuple, self._each(rows)))

    def columns(self, rows: Indices) -> Any:
        return self._sizes(rows) if isinstance(self.inner, CountDistinct) else self.values(rows)

    def to_wire(self, rows: Indices) -> type_of_wire:
        """``[sizes, ranks, form of members, their columns ...]``; None where all sets are empty, and for sizes of 1."""
        sets = self._sets(rows)
        if sets is None:
            return None
        sizes = np.bincount(sets.owners, minlength=len(rows)).astype(np.int64, copy=False)
        several = None if bool((sizes == 1).all()) else narrow(sizes)
        return [several, narrow(sets.ranks), *sets.members.to_wire()]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        if wire is None:
            return self.empty()
        require(type(wire) is list and len(wire) > 3, "sizes, ranks and members of sets were expected")
        parts: Any = wire
        members, ranks = keys_from_wire(parts[2:]), widened(parts[1])
        require(members.order() is None, "members must ascend, each once")
        owners = owners_from_wire(parts[0], height, len(ranks))
        require(bool((ranks >= 0).all() & (ranks < members.rows).all()), "a rank of no member")
        require(bool((np.bincount(ranks, minlength=members.rows) > 0).all()), "a member of no set")
        pairs = owners << _PLACE_BITS | ranks
        require(bool((pairs[1:] > pairs[:-1]).all()), "members of a set must ascend, each once")
        return self._numbered(owners, ranks, members)

    def _numbered(self, owners: Ints, places: Ints, members: Keys) -> Self:
        """Pairs of these owners and of the members at these places."""
        if ITSELF.has(members):
            return self._of(ITSELF, IntIndex(owners << _PLACE_BITS | members.take(places).parts[0]))  # type: ignore[operator]
        return self._of(KeyIndex.of(members), IntIndex(owners << _PLACE_BITS | places))

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

    @property
    def size_bytes(self) -> int:
        return self._pairs.size_bytes + (0 if self._index is None else self._index.size_bytes)


def owners_from_wire(sizes: type_of_wire, height: int, count: int) -> Ints:
    """The row of each of ``count`` entries, in the order of rows. Raises as decoders do."""
    if sizes is None:
        require(count == height, "an entry for each key was expected")
        return np.arange(height)
    counts = widened(sizes)
    require(len(counts) == height and bool((counts >= 0).all() & (counts <= count).all()), "a number for each key")
    require(int(counts.sum()) == count > 0 and not bool((counts == 1).all()), "numbers of entries do not add up")
    return np.repeat(np.arange(height), counts)


def _owners(pairs: Ints, rows: Indices) -> tuple[Ints, Any]:
    """Of the pairs that belong to these rows the place of the row among them, and which pairs these are."""
    there = pairs >> _PLACE_BITS
    if len(rows) == 1:
        hits = np.flatnonzero(there == rows[0])
        return np.zeros(len(hits), np.int64), hits
    places = np.full(max(int(there.max(initial=0)), int(rows.max(initial=0))) + 1, -1)
    places[rows] = np.arange(len(rows))
    owners = places[there]
    if (owners >= 0).all():
        return owners, slice(None)
    hits = np.flatnonzero(owners >= 0)
    return owners[hits], hits


def _used(places: Ints, index: KeyIndex | Itself) -> tuple[Indices, Ints]:
    """The places that come at all, ascending, and where among these each one is."""
    if not isinstance(index, KeyIndex):
        return numbered(places)
    present = np.zeros(index.count, np.bool_)
    present[places] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[places]


_NONE = np.empty(0, np.int64)
