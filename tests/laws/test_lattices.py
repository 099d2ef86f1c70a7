"""Every lattice type of ``wcrdt`` keeps the laws. A new type gets all of these tests by one line in ``CASES``."""

import math
from decimal import Decimal

import pytest
from hypothesis import strategies as st

import wcrdt
from wcrdt import (
    Average,
    Bag,
    BoolAnd,
    BoolOr,
    CountDistinct,
    GCounter,
    GSet,
    Histogram,
    LinearRegression,
    MapOf,
    Max,
    MaxBy,
    Min,
    MinBy,
    OfLargest,
    ORSet,
    PairOf,
    PNCounter,
    Quantiles,
    RecordOf,
    RowLog,
    Sum,
    ThetaSketch,
    TopK,
    Variance,
    YArray,
    YMap,
    YText,
    check_laws,
)

pytestmark = pytest.mark.laws

SMALL = st.integers(-3, 3)
INTS = st.one_of(SMALL, st.sampled_from([2**62, 2**63 - 1, -(2**63), 2**64, -(2**80)]))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-100, max_value=100, places=2)
NUMBERS = st.one_of(INTS, DECIMALS, st.sampled_from([Decimal("1.0"), Decimal(1), Decimal("1E+20"), Decimal("1E-30")]))
TIED = st.sampled_from(
    [None, False, True, 0, 1, 1.0, 0.0, -0.0, Decimal(1), Decimal("1.0"), "1", "", b"1", (1,), (True, "é")]
)
FLOATS = st.floats(allow_nan=False)
EDGES = st.sampled_from(
    [0.1, -0.1, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -1e308, 1e16, math.inf, -math.inf]
)
ADDED = st.one_of(FLOATS, EDGES, SMALL.map(float))
SCALARS = st.one_of(
    TIED, SMALL, INTS, DECIMALS, FLOATS, st.text(max_size=3), st.binary(max_size=3), st.tuples(SMALL, TIED)
)
TYPED = [SMALL, st.floats(allow_nan=False), st.booleans(), st.sampled_from("abc"), st.tuples(SMALL, SMALL)]
ELEMENTS = st.one_of(SCALARS, *TYPED)
KEYED = st.one_of(st.tuples(SMALL, SMALL), st.tuples(ELEMENTS, ELEMENTS))
SET_EDITS = st.tuples(st.sampled_from(["add", "remove"]), st.one_of(SMALL, TIED))
WORDS = st.text(max_size=3)
TEXT_EDITS = st.one_of(WORDS, st.tuples(SMALL, WORDS), st.tuples(st.just("remove"), SMALL, SMALL))
MAP_EDITS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("ab"), SCALARS), st.tuples(st.just("remove"), st.sampled_from("ab"))
)
ARRAY_EDITS = st.one_of(
    st.tuples(st.just("append"), SCALARS),
    st.tuples(st.just("insert"), SMALL, SCALARS),
    st.tuples(st.just("remove"), SMALL),
)

CASES = {
    "gcounter": (GCounter(), INTS),
    "pncounter": (PNCounter(), INTS),
    "max": (Max(), ELEMENTS),
    "max of ints": (Max(), INTS),
    "max of floats": (Max(), st.floats(allow_nan=False)),
    "min": (Min(), ELEMENTS),
    "min of ints": (Min(), SMALL),
    "maxby all": (MaxBy(), KEYED),
    "maxby all of ints": (MaxBy(), st.tuples(SMALL, st.tuples(SMALL, st.booleans()))),
    "maxby first": (MaxBy(ties="first"), KEYED),
    "minby all": (MinBy(), KEYED),
    "minby first": (MinBy(ties="first"), st.tuples(SMALL, SMALL)),
    "sum": (Sum(), NUMBERS),
    "sum of ints": (Sum(), INTS),
    "sum of floats": (Sum(), ADDED),
    "sum of all numbers": (Sum(), st.one_of(NUMBERS, ADDED)),
    "average": (Average(), NUMBERS),
    "average of ints": (Average(), INTS),
    "average of floats": (Average(), ADDED),
    "average of all numbers": (Average(), st.one_of(NUMBERS, ADDED)),
    "variance": (Variance(), NUMBERS),
    "variance of ints": (Variance(), INTS),
    "variance of floats": (Variance(), ADDED),
    "variance of near floats": (Variance(), st.floats(-1e3, 1e3)),
    "map of variance": (MapOf(Variance()), st.tuples(SMALL, st.floats(-1e3, 1e3))),
    "regression": (LinearRegression(), st.tuples(NUMBERS, NUMBERS)),
    "regression of ints": (LinearRegression(), st.tuples(SMALL, INTS)),
    "regression of floats": (LinearRegression(), st.tuples(st.floats(-1e3, 1e3), ADDED)),
    "regression of ints and floats": (LinearRegression(), st.tuples(SMALL, st.floats(-1e3, 1e3))),
    "gset": (GSet(), ELEMENTS),
    "count of distinct": (CountDistinct(), ELEMENTS),
    "orset": (ORSet(), SET_EDITS),
    "map of gcounter": (MapOf(GCounter()), st.tuples(TIED, INTS)),
    "map of max": (MapOf(Max()), st.tuples(INTS, INTS)),
    "map of min by text": (MapOf(Min()), st.tuples(st.text(max_size=1), SMALL)),
    "map of sum by tuple": (MapOf(Sum()), st.tuples(st.tuples(SMALL, st.sampled_from("ab")), NUMBERS)),
    "map of sum of floats": (MapOf(Sum()), st.tuples(SMALL, ADDED)),
    "map of average": (MapOf(Average()), st.tuples(SMALL, SMALL)),
    "map of maxby": (MapOf(MaxBy()), st.tuples(SMALL, st.tuples(SMALL, SMALL))),
    "map of gset": (MapOf(GSet()), st.tuples(SMALL, TIED)),
    "map of counts of distinct": (MapOf(CountDistinct()), st.tuples(SMALL, TIED)),
    "map of topk": (MapOf(TopK(2)), st.tuples(SMALL, KEYED)),
    "map of orset": (MapOf(ORSet()), st.tuples(SMALL, SET_EDITS)),
    "map of histogram": (MapOf(Histogram([0, 2])), st.tuples(SMALL, SMALL)),
    "map of maps": (MapOf(MapOf(Max())), st.tuples(SMALL, st.tuples(SMALL, SMALL))),
    "map of records": (
        MapOf(RecordOf(count=GCounter(), top=Max(), mean=Average())),
        st.tuples(SMALL, st.tuples(st.integers(0, 3), SMALL, SMALL)),
    ),
    "record": (RecordOf(bids=GCounter(), seen=GSet(), low=Min()), st.tuples(SMALL, TIED, INTS)),
    "record that folds": (RecordOf(n=GCounter(), best=MaxBy()), st.tuples(SMALL, st.tuples(SMALL, SMALL))),
    "pair": (PairOf(Max(), ORSet()), st.tuples(ELEMENTS, SET_EDITS)),
    "bag of largest": (OfLargest(Bag()), st.tuples(SMALL, st.tuples(SMALL, st.sampled_from(["a", "ü"])))),
    "sum of largest": (OfLargest(Sum()), st.tuples(SMALL, SMALL)),
    "map of bags of largest": (MapOf(OfLargest(Bag())), st.tuples(SMALL, st.tuples(SMALL, SMALL))),
    "topk of items": (TopK(2), KEYED),
    "topk of int items": (TopK(3), st.tuples(SMALL, SMALL)),
    "topk of pairs": (TopK(2, distinct=False), KEYED),
    "topk of int pairs": (TopK(3, distinct=False), st.tuples(SMALL, SMALL)),
    "bag": (Bag(), st.one_of(INTS, st.text(max_size=2), st.none(), st.tuples(SMALL, st.binary(max_size=1)))),
    "bag of ints": (Bag(), SMALL),
    "row log": (RowLog(2), st.tuples(st.one_of(SMALL, INTS, TIED), st.one_of(SMALL, FLOATS, st.text(max_size=2)))),
    "row log of ints": (RowLog(2), st.tuples(SMALL, INTS)),
    "row log of floats": (RowLog(1), st.tuples(FLOATS)),
    "quantiles": (Quantiles(), NUMBERS),
    "quantiles of floats": (Quantiles(0.1), st.floats(allow_nan=False, allow_infinity=False)),
    "map of quantiles": (MapOf(Quantiles(0.3)), st.tuples(SMALL, st.floats(-1e3, 1e3))),
    "histogram": (Histogram([-1, 0, 2]), NUMBERS),
    "histogram of floats": (Histogram([-0.5, 0.0, 1e300]), st.floats(allow_nan=False)),
    "histogram of mixed bounds": (Histogram([0, 0.5, Decimal("0.7")]), NUMBERS),
    "or": (BoolOr(), st.booleans()),
    "and": (BoolAnd(), st.booleans()),
    "theta": (ThetaSketch(), ELEMENTS),
    "theta that estimates": (ThetaSketch(5), st.integers(0, 200)),
    "ytext": (YText(), TEXT_EDITS),
    "ymap": (YMap(), MAP_EDITS),
    "yarray": (YArray(), ARRAY_EDITS),
    "map of ytext": (MapOf(YText()), st.tuples(st.sampled_from("ab"), TEXT_EDITS)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_type_keeps_the_laws(name: str) -> None:
    zero, elements = CASES[name]
    check_laws(zero, elements)


def test_every_exported_type_is_checked() -> None:
    exported = {
        getattr(wcrdt, name).tag
        for name in wcrdt.__all__
        if isinstance(getattr(wcrdt, name), type)
        and issubclass(getattr(wcrdt, name), wcrdt.Lattice)
        and getattr(wcrdt, name) is not wcrdt.Lattice
    }
    assert {zero.tag for zero, _ in CASES.values()} == exported


def test_theta_keeps_the_laws_beyond_its_capacity() -> None:
    def many(seed: int) -> list[int]:
        return list(range(seed * 20, seed * 20 + 60))

    class Bulk(ThetaSketch):
        """Inserts 60 elements at once, so that the trimmed states are compared."""

        __slots__ = ()

        def insert(self, element: int, *, actor: int = 0) -> "Bulk":
            return super().insert_many(many(element), actor=actor)

        def insert_many(self, elements: list[int], *, actor: int = 0) -> "Bulk":
            return super().insert_many([x for element in elements for x in many(element)], actor=actor)

    check_laws(Bulk(5), st.integers(0, 30))
