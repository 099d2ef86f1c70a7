"""The law checker finds broken types: each of these breaks one law in the way that people break it."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

from wcrdt import DecodeError, GCounter, GSet, Lattice, LawBroken, MapOf, Max, ORSet, Sum, TopK, check_laws
from wcrdt.lattices.tallies import Row

SMALL = st.integers(-3, 3)


class AddsInMerge(GCounter):
    """Merge with +: not idempotent."""

    __slots__ = ()

    def merge(self, other):
        for actor, (count,) in other._rows.items():
            self.absorb((count,), actor)
        return bool(other._rows)


class AlwaysChanged(GCounter):
    """Says that it changed when it did not."""

    __slots__ = ()

    def merge(self, other):
        super().merge(other)
        return True


class NeverChanged(Max):
    """Says that it did not change when it did."""

    __slots__ = ()

    def merge(self, other):
        super().merge(other)
        return False


class LastWriter(Max):
    """The other side wins: not commutative."""

    __slots__ = ()

    def merge(self, other):
        changed = other._best is not None and other._best != self._best
        self._best = other._best if changed else self._best
        return changed


class ForgetsActors(GCounter):
    """All actors count as one, so that counts of two hide each other."""

    __slots__ = ()

    def insert(self, element, *, actor=0):
        self.absorb(self.fold(element), 0)
        return self.own(0)


class DeltaIsTheElement(GCounter):
    """The delta has the step instead of the count after it."""

    __slots__ = ()

    def insert(self, element, *, actor=0):
        before = self._rows.get(actor, (0,))
        whole = super().insert(element, actor=actor)
        if not element:
            return whole
        step = type(self)()
        step.absorb((self._rows[actor][0] - before[0],), actor)
        return step


class DeltaIsItself(GSet):
    """Returns itself as delta: aliased."""

    __slots__ = ()

    def insert(self, element, *, actor=0):
        super().insert(element, actor=actor)
        return self


class AliasesTheOther(GSet):
    """Takes over the other's set when empty."""

    __slots__ = ()

    def merge(self, other):
        if not self._members:
            self._members = other._members
            return bool(other._members)
        return super().merge(other)


class SharesWithItsMap(MapOf):
    """Takes over the other's entries instead of copies."""

    __slots__ = ()

    def merge(self, other):
        missing = [key for key in other._entries if key not in self._entries]
        for key in missing:
            self._entries[key] = other._entries[key]
        return super().merge(other) or bool(missing)


class LosesTheLastRow(Max):
    """The column-wise way drops a row."""

    __slots__ = ()

    def fold_groups(self, column, groups):
        return super().fold_groups(column[:-1], groups) if len(column) > 1 else None


class Overflows(Sum):
    """Sums a column in int64."""

    __slots__ = ()

    def fold_groups(self, column, groups):
        if not hasattr(column, "dtype") or column.dtype.kind != "i":
            return None
        return [self.fold(int(column.sum()))]


class ArrivalOrder(GSet):
    """Writes its elements in the order of arrival: equal values, other bytes."""

    __slots__ = ("arrived",)

    def __init__(self):
        super().__init__()
        self.arrived = {}

    def insert(self, element, *, actor=0):
        self.arrived[element] = None
        return super().insert(element)

    def to_wire(self):
        return [*self.arrived, *(x for x in super().to_wire() if type(x) is list or x not in self.arrived)]


class TrustsTheWire(GSet):
    """Takes elements in any order."""

    __slots__ = ()

    def from_wire(self, wire):
        if type(wire) is not list:
            raise DecodeError("no list")
        fresh = self.bottom()
        fresh.insert_many([x for x in wire if type(x) is int])
        return fresh


class TripsOverTheWire(GSet):
    """Fails in its own way on a wire that is none."""

    __slots__ = ()

    def from_wire(self, wire):
        return super().from_wire(sorted(wire))


class LooseOrder(Max):
    """leq that is true for everything."""

    __slots__ = ()

    def leq(self, other):
        return True


class StrictOrder(Max):
    """leq that is false for equal values."""

    __slots__ = ()

    def leq(self, other):
        return super().leq(other) and self != other


class HalfInserted(GCounter):
    """Changes its state before it refuses."""

    __slots__ = ()

    def insert(self, element, *, actor=0):
        if element < 0:
            self.absorb((1,), actor)
            raise ValueError("no")
        return super().insert(element, actor=actor)


class Deflates(Sum):
    """Keeps the balance in one number, which can go down."""

    __slots__ = ()

    def fold(self, element) -> Row:
        return (element, 0)

    def fold_groups(self, column, groups):
        return None


class KeepsTooFew(TopK):
    """Cuts the inserted pairs one too short."""

    __slots__ = ()

    def _join(self, pairs):
        changed = super()._join(pairs)
        while len(self._pairs) > 1 and len(self._pairs) == self._k:
            self._pairs.popitem()
        return changed


class Resurrects(ORSet):
    """Takes every dot of the other, seen or not."""

    __slots__ = ()

    def merge(self, other):
        changed = super().merge(other)
        for key, dots in other._dots.items():
            mine = self._dots.get(key, frozenset())
            changed = changed or not dots <= mine
            self._put(key, mine | dots)
        return changed


class CombinesByMerge(GCounter):
    """Counts of different elements hide each other."""

    __slots__ = ()

    def combine(self, other):
        self.merge(other)


class SharesWhatItCombines(GSet):
    """Takes over the other's set when empty."""

    __slots__ = ()

    def combine(self, other):
        if not self._members:
            self._members = other._members
        self._members |= other._members


class CombinesUncombined(ORSet):
    """Combines though it says that it does not."""

    __slots__ = ()

    def combine(self, other):
        self.merge(other)


EDITS = st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 1))
BROKEN: list[tuple[Callable[[], Lattice], st.SearchStrategy, str]] = [
    (AddsInMerge, st.integers(0, 3), ""),
    (AlwaysChanged, st.integers(0, 3), "idempotent|whether something changed"),
    (NeverChanged, SMALL, "returns whether"),
    (LastWriter, SMALL, ""),
    (ForgetsActors, st.integers(0, 3), ""),
    (DeltaIsTheElement, st.integers(0, 3), "delta"),
    (DeltaIsItself, SMALL, "aliased"),
    (AliasesTheOther, SMALL, ""),
    (lambda: SharesWithItsMap(Max()), st.tuples(SMALL, SMALL), ""),
    (LosesTheLastRow, SMALL, "insert_many"),
    (Overflows, st.sampled_from([2**62, -(2**62), 1]), "insert_many"),
    (ArrivalOrder, SMALL, ""),
    (TrustsTheWire, SMALL, "no other wire"),
    (TripsOverTheWire, SMALL, "only DecodeError"),
    (LooseOrder, SMALL, "leq|below each other"),
    (StrictOrder, SMALL, "leq|bottom|above both|delta"),
    (HalfInserted, SMALL, "refused"),
    (Deflates, SMALL, ""),
    (lambda: KeepsTooFew(3), st.tuples(SMALL, SMALL), ""),
    (Resurrects, EDITS, ""),
    (CombinesByMerge, st.integers(0, 3), "combine"),
    (SharesWhatItCombines, SMALL, "combine"),
    (CombinesUncombined, EDITS, "does not combine refuses"),
]


@pytest.mark.parametrize(("make", "elements", "reason"), BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_a_broken_type_is_found(make, elements, reason):
    with settings_without_database(), pytest.raises(LawBroken, match=reason or None):
        check_laws(make(), elements, max_examples=1_000)


def test_a_type_with_a_merge_of_its_own_does_not_inherit_that_it_combines():
    assert GCounter.combines
    assert not LastWriter.combines
    assert not MapOf(LastWriter()).combines
    with pytest.raises(TypeError, match="cannot be combined"):
        LastWriter().combine(LastWriter())


def test_a_type_that_refuses_everything_is_not_taken_for_lawful():
    with pytest.raises(LawBroken, match="every element was refused"):
        check_laws(GCounter(), st.just(-1), max_examples=5)


def settings_without_database():
    """The same examples every time, none kept: these tests are meant to fail inside."""
    from contextlib import contextmanager

    @contextmanager
    def profile():
        before = settings.get_current_profile_name()
        fixed = settings(database=None, derandomize=True, phases=[Phase.generate])
        settings.register_profile("planted", parent=fixed)
        settings.load_profile("planted")
        try:
            yield
        finally:
            settings.load_profile(before)

    return profile()
