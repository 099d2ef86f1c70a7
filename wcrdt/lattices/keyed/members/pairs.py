"""An index of pairs, each of a row and a member: the part that sets and counted members of each key share.

A member is a place in an index that a map and what was made of it (copies, deltas) share, and which only grows. So a
member that many keys have is held once, and members of any number are found and added to without reading the others.
Ints of a range of 32 bits are their own places, as long as all members are such.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.distinct import distinct, numbered
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, int_column
from wcrdt.lattices.keyed.int_index import IntIndex
from wcrdt.lattices.keyed.keys import KeyIndex, Keys, Unfit, check_all_texts, numbered_keys
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf
from wcrdt.lattices.keyed.packing import narrow, widened

PLACE_BITS = 32
PLACES = (1 << PLACE_BITS) - 1
NOTHING = np.empty(0, np.int64)
_MOST_UNUSED = 2
"""An index of more than so many members a pair has many that no pair needs."""


class Itself:
    """The index of the ints from ``least`` on that have 32 bits: the place of each is its distance from there."""

    form = "i"
    size_bytes = 0

    def __init__(self, least: int) -> None:
        self.least = least

    def take(self, places: Ints) -> Keys:
        """The members at these places."""
        return Keys("i", [places + self.least])

    def find(self, members: Keys) -> tuple[Ints, Ints]:
        """As ``KeyIndex.find``: -1 for what has no place."""
        numbers = members.parts[0]
        assert isinstance(numbers, np.ndarray), members.form
        inside = (numbers >= self.least) & (numbers <= self.least + PLACES)
        return np.where(inside, numbers - self.least, -1), NOTHING

    def has(self, members: Keys) -> bool:
        """Whether all of them have places; there is one at least."""
        if members.form != "i":
            return False
        numbers: Any = members.parts[0]
        return int(numbers.min()) >= self.least and int(numbers.max()) <= self.least + PLACES


class Folded(NamedTuple):
    """Rows of elements: the group of each, and its place among the distinct ones; None where those are the rows."""

    groups: Ints
    places: Ints | None
    members: Keys


class Known(NamedTuple):
    """The index of members that there is then, and what has to be added to it before, by which numbers."""

    places: KeyIndex | Itself | None
    members: Keys | None
    numbers: Ints


class Arranged(NamedTuple):
    """Pairs in the order of rows, and in that of members within a row; ``ranks`` are places in ``members``.

    ``members`` ascend, each is there once, and each is in a pair. ``positions`` are those of the pairs in their index,
    where they were asked for.
    """

    owners: Ints
    ranks: Ints
    members: Keys
    positions: Ints


class PairsLeaf(Leaf):
    """Members of one form for each row: ints, texts, bytes, or tuples of these."""

    __slots__ = ("_index", "_pairs")

    itself: ClassVar[Itself] = Itself(0)

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
        if numbers is not None and self.itself.has(Keys("i", [numbers])):
            return Folded(groups.ordinals(), None, Keys("i", [numbers]))
        found = numbered_keys(column)
        if found is None:
            raise Unfit
        return Folded(groups.ordinals(), found[1], found[0])

    def _pairs_of(self, rows: Indices, folded: Folded) -> tuple[Ints, Known]:
        """The pair of each element. Raises ``Unfit``."""
        at, given = folded.places, folded.members
        if at is None and isinstance(self._index, KeyIndex):
            found = numbered_keys(given.parts[0])
            assert found is not None, "ints are keys"
            given, at = found
        places, known = self._places(given)
        return rows[folded.groups] << PLACE_BITS | (places if at is None else places[at]), known

    def _pairs_of_other(self, rows: Indices, other: Self) -> tuple[Ints, Known]:
        """The other's pairs, in its order, as pairs of these rows. Raises ``Unfit``."""
        theirs = other._pairs.keys
        if other._index is None or not len(theirs):  # of a delta whose rows changed elsewhere, the index alone is there
            return NOTHING, Known(self._index, None, NOTHING)
        places, known = theirs & PLACES, Known(other._index, None, NOTHING)
        if self._index is not None and self._index is not other._index:
            used, at = _used(places, other._index)
            found, known = self._places(other._index.take(used))
            places = found[at]
        return rows[theirs >> PLACE_BITS] << PLACE_BITS | places, known

    def _places(self, members: Keys) -> tuple[Ints, Known]:
        """A place for each. Members may come twice where they are their own places. Raises ``Unfit``."""
        if self._index is None or self._index is self.itself:
            if self.itself.has(members):
                return self.itself.find(members)[0], Known(self.itself, None, NOTHING)
            self._number()
        if self._index is None:
            check_all_texts(members)
            return np.arange(members.rows), Known(None, members, NOTHING)
        assert isinstance(self._index, KeyIndex), "members have been numbered"
        if self._index.form != members.form:
            raise Unfit
        places, numbers = self._index.find(members)
        new = np.flatnonzero(places < 0)
        places[new] = np.arange(self._index.count, self._index.count + len(new))
        if not len(new):
            return places, Known(self._index, None, NOTHING)
        given = members.take(new)
        check_all_texts(given)
        return places, Known(self._index, given, numbers[new])

    def _number(self) -> None:
        """Go on with an index of all members, where they were their own places."""
        pairs, self._index = self._pairs.keys, None
        if len(pairs):
            members, places = numbered(pairs & PLACES)
            self._index = KeyIndex.of(self.itself.take(members))
            self._pairs = IntIndex(pairs >> PLACE_BITS << PLACE_BITS | places)

    def _commit_members(self, known: Known) -> None:
        index = known.places
        if known.members is not None:
            if isinstance(index, KeyIndex):
                index.add(known.members, known.numbers)
            else:
                index = KeyIndex.of(known.members)
        self._index = index

    def _found_in(self, rows: Indices, other: Self) -> Ints | None:
        """The position of each pair of this among those of the other's ``rows``; None where one is not there."""
        if self._index is None or not self._pairs.count:
            return NOTHING
        mine = self._pairs.keys
        places = mine & PLACES
        if other._index is None:
            return None
        if self._index is not other._index:
            used, at = _used(places, self._index)
            members = self._index.take(used)
            if members.form != other._index.form:
                return None
            found, _ = other._index.find(members)
            if (found < 0).any():
                return None
            places = found[at]
        positions = other._pairs.find(rows[mine >> PLACE_BITS] << PLACE_BITS | places)
        return None if (positions < 0).any() else positions

    # --- parts ----------------------------------------------------------------------------------------------------

    def taken(self, rows: Indices) -> Self:
        """With an index of its own where that of all members is large: parts of parts would never forget one."""
        fresh = self.own(rows, 0)
        if isinstance(self._index, KeyIndex) and self._index.count > _MOST_UNUSED * fresh._pairs.count:
            fresh._forget_unused(self._index)
        return fresh

    def _forget_unused(self, index: KeyIndex) -> None:
        pairs = self._pairs.keys
        self._index = None
        if len(pairs):
            used, at = _used(pairs & PLACES, index)
            self._index = KeyIndex.of(index.take(used))
            self._pairs = IntIndex(pairs >> PLACE_BITS << PLACE_BITS | at)

    # --- reading --------------------------------------------------------------------------------------------------

    def _pairs_at(self, rows: Indices) -> tuple[Ints, Ints]:
        """The positions of the pairs that belong to these rows, and of each the place of its row among them."""
        there = self._pairs.keys >> PLACE_BITS
        if len(rows) == 1:
            hits = np.flatnonzero(there == rows[0])
            return hits, np.zeros(len(hits), np.int64)
        places = np.full(max(int(there.max(initial=0)), int(rows.max(initial=0))) + 1, -1)
        places[rows] = np.arange(len(rows))
        owners = places[there]
        if (owners >= 0).all():
            return np.arange(len(owners)), owners
        hits = np.flatnonzero(owners >= 0)
        return hits, owners[hits]

    def _arranged(self, rows: Indices, *, positions: bool = False) -> Arranged | None:
        """The pairs of these rows, which own them by their place; None where there is none."""
        hits, owners = self._pairs_at(rows)
        if self._index is None or not len(owners):
            return None
        used, at = _used(self._pairs.keys[hits] & PLACES, self._index)
        members = self._index.take(used)
        order = members.order()
        if order is not None:
            members, ranks = members.take(order), np.empty(len(used), np.int64)
            ranks[order] = np.arange(len(used))
            at = ranks[at]
        bits = len(used).bit_length()
        together = owners << bits | at
        if not positions:
            together = np.sort(together)
        elif not (together[1:] > together[:-1]).all():
            order = np.argsort(together)
            together, hits = together[order], hits[order]
        return Arranged(together >> bits, together & ((1 << bits) - 1), members, hits)

    def _numbered(self, owners: Ints, places: Ints, members: Keys) -> Self:
        """Pairs of these owners and of the members at these places."""
        if self.itself.has(members):
            places = self.itself.find(members)[0][places]
            return self._of(self.itself, IntIndex(owners << PLACE_BITS | places))
        return self._of(KeyIndex.of(members), IntIndex(owners << PLACE_BITS | places))

    def _pairs_from_wire(self, owners: Ints, ranks: Ints, members: Keys) -> Self:
        """Pairs in order, of these ranks among these members. Raises as decoders do."""
        require(members.order() is None, "members must ascend, each once")
        require(bool((ranks >= 0).all() & (ranks < members.rows).all()), "a rank of no member")
        require(bool((np.bincount(ranks, minlength=members.rows) > 0).all()), "a member of no key")
        pairs = owners << PLACE_BITS | ranks
        require(bool((pairs[1:] > pairs[:-1]).all()), "members of a key must ascend, each once")
        return self._numbered(owners, ranks, members)

    @property
    def size_bytes(self) -> int:
        return self._pairs.size_bytes + (0 if self._index is None else self._index.size_bytes)


def sizes_to_wire(owners: Ints, height: int) -> type_of_wire:
    """How many entries each row has, of their rows; None where each has one."""
    sizes = np.bincount(owners, minlength=height).astype(np.int64, copy=False)
    return None if bool((sizes == 1).all()) else narrow(sizes)


def owners_from_wire(sizes: type_of_wire, height: int, count: int) -> Ints:
    """The row of each of ``count`` entries, in the order of rows. Raises as decoders do."""
    if sizes is None:
        require(count == height, "an entry for each key was expected")
        return np.arange(height)
    counts = widened(sizes)
    require(len(counts) == height and bool((counts >= 0).all() & (counts <= count).all()), "a number for each key")
    require(int(counts.sum()) == count > 0 and not bool((counts == 1).all()), "numbers of entries do not add up")
    return np.repeat(np.arange(height), counts)


def new_pairs(known: IntIndex, pairs: Ints) -> Ints:
    """Those that are not there, ascending, each once."""
    if known.count:
        pairs = pairs[known.find(pairs) < 0]
    return distinct(pairs) if len(pairs) else NOTHING


def _used(places: Ints, index: KeyIndex | Itself) -> tuple[Indices, Ints]:
    """The places that come at all, ascending, and where among these each one is."""
    if not isinstance(index, KeyIndex):
        return numbered(places)
    present = np.zeros(index.count, np.bool_)
    present[places] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[places]
