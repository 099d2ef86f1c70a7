"""Maps as columns keep the laws, and hold what maps of objects hold, in every form in which elements come."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wcrdt.lattices.keyed.keys as keys_module
from tests.laws.test_lattices import ADDED, INTS, NUMBERS, SMALL, TIED
from tests.shares import share_of
from wcrdt import (
    Average,
    Bag,
    ColumnsOf,
    CountDistinct,
    GCounter,
    GSet,
    Histogram,
    Lattice,
    MapOf,
    Max,
    MaxBy,
    Min,
    MinBy,
    PairOf,
    PNCounter,
    Quantiles,
    RecordOf,
    Sum,
    ThetaSketch,
    TopK,
    check_laws,
    decode,
    encode,
)
from wcrdt.lattices import maps
from wcrdt.lattices.columns import rows_of
from wcrdt.laws import REFUSALS, columns_of

pytestmark = pytest.mark.laws

TEXTS = st.sampled_from(["", "a", "b", "é", "a\0", "longer than eight bytes", "longer than eight bytez", "x" * 40])
BYTES = st.sampled_from([b"", b"\0", b"\0\0", b"a", b"12345678", b"123456789"])
PAIRS = st.one_of(st.tuples(SMALL, TEXTS), st.tuples(SMALL, SMALL), st.tuples(TEXTS))
BIG = st.sampled_from([-(2**63), 2**63 - 1, 2**62, 0, 1])
KEYS = st.sampled_from([SMALL, BIG, TEXTS, BYTES, PAIRS, TIED]).flatmap(lambda kind: kind)
ONE_KIND = {"ints": SMALL, "big ints": BIG, "texts": TEXTS, "bytes": BYTES, "pairs": PAIRS, "all": KEYS}
CENTS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-100, max_value=100, places=2)
DECIMALS = st.one_of(
    CENTS,
    st.sampled_from(
        list(
            map(
                Decimal,
                (
                    "0",
                    "-0.0",
                    "1E+5",
                    "9.3E+17",
                    "1E+18",
                    "92233720368547758.07",
                    "-92233720368547758.08",
                    "0.1E-17",
                    "1E-18",
                    "1E-19",
                    "1.00000000000000000000",
                    "1E+30",
                    "0E-30",
                    "-7.50E-3",
                ),
            )
        )
    ),
)
COUNTS = st.one_of(st.integers(0, 3), st.sampled_from([2**62, 2**63 - 1, -1]))
PAYLOADS = st.sampled_from([SMALL, TEXTS, BYTES, PAIRS, TIED]).flatmap(lambda kind: kind)
RECORD = RecordOf(count=GCounter(), top=Max(), mean=Average())
EXAMPLES = max(25, settings.default.max_examples // 4)  # one costs ten times what it costs for other lattices

INNER: dict[str, tuple[Lattice[Any, Any], Any]] = {
    "gcounter": (GCounter(), COUNTS),
    "pncounter": (PNCounter(), INTS),
    "sum": (Sum(), NUMBERS),
    "sum of ints": (Sum(), INTS),
    "sum of floats": (Sum(), ADDED),
    "sum of all": (Sum(), st.one_of(ADDED, NUMBERS)),
    "sum of decimals": (Sum(), CENTS),
    "sum of decimals of any size": (Sum(), DECIMALS),
    "sum of decimals, ints and floats": (Sum(), st.one_of(CENTS, SMALL, ADDED)),
    "average": (Average(), INTS),
    "average of decimals": (Average(), CENTS),
    "average of decimals and floats": (Average(), st.one_of(DECIMALS, SMALL, ADDED)),
    "average of floats": (Average(), ADDED),
    "average of both": (Average(), st.one_of(ADDED, SMALL)),
    "histogram": (Histogram([-1, 0, 2]), SMALL),
    "histogram of floats": (Histogram([-0.5, 0.0, 1e300]), st.floats(allow_nan=True)),
    "max": (Max(), INTS),
    "max of floats": (Max(), st.floats(allow_nan=True)),
    "min": (Min(), st.one_of(SMALL, ADDED)),
    "maxby": (MaxBy(), st.tuples(SMALL, PAYLOADS)),
    "maxby of numbers": (MaxBy(), st.tuples(st.one_of(BIG, ADDED), st.tuples(SMALL, SMALL))),
    "maxby first": (MaxBy(ties="first"), st.tuples(SMALL, PAYLOADS)),
    "minby": (MinBy(), st.tuples(st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan]), TEXTS)),
    "minby first": (MinBy(ties="first"), st.tuples(SMALL, st.integers(0, 3))),
    "record of maxby": (RecordOf(n=GCounter(), best=MaxBy()), st.tuples(COUNTS, st.tuples(SMALL, SMALL))),
    "set": (GSet(), PAYLOADS),
    "set of ints": (GSet(), st.one_of(SMALL, BIG)),
    "set of small ints": (GSet(), st.sampled_from([0, 1, 7, 2**32 - 1])),
    "set of ints around 32 bits": (GSet(), st.sampled_from([0, 1, 5, 2**32 - 1, 2**32, -1])),
    "set of texts": (GSet(), TEXTS),
    "set of all": (GSet(), st.one_of(TIED, ADDED)),
    "count of distinct pairs": (CountDistinct(), st.tuples(SMALL, TEXTS)),
    "record of sets": (RecordOf(n=GCounter(), who=GSet(), where=CountDistinct()), st.tuples(COUNTS, SMALL, TEXTS)),
    "top 2": (TopK(2), st.tuples(SMALL, PAYLOADS)),
    "top 2 of ints": (TopK(2), st.tuples(st.one_of(SMALL, BIG), SMALL)),
    "top 2 of texts": (TopK(2), st.tuples(ADDED, TEXTS)),
    "top 3 pairs": (TopK(3, distinct=False), st.tuples(SMALL, st.tuples(SMALL, TEXTS))),
    "top 1 by floats": (TopK(1), st.tuples(st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan]), SMALL)),
    "record of top": (RecordOf(n=GCounter(), top=TopK(2)), st.tuples(COUNTS, st.tuples(SMALL, SMALL))),
    "bag": (Bag(), PAYLOADS),
    "bag of ints": (Bag(), st.one_of(SMALL, BIG)),
    "bag of small ints": (Bag(), st.sampled_from([0, 1, 7, 2**32 - 1])),
    "bag of ints around 32 bits": (Bag(), st.sampled_from([0, 1, 5, 2**32 - 1, 2**32, -1])),
    "bag of texts": (Bag(), TEXTS),
    "bag of what may be refused": (Bag(), st.one_of(TIED, ADDED)),
    "quantiles": (Quantiles(), st.one_of(NUMBERS, ADDED)),
    "quantiles of floats": (Quantiles(0.3), st.floats(allow_nan=False, allow_infinity=False)),
    "quantiles of ints": (Quantiles(1e-6), st.one_of(SMALL, BIG)),
    "theta": (ThetaSketch(), st.one_of(PAYLOADS, TIED, ADDED)),
    "theta of texts": (ThetaSketch(), TEXTS),
    "theta that estimates": (ThetaSketch(5), st.integers(0, 100)),
    "record of theta": (RecordOf(n=GCounter(), who=ThetaSketch(5)), st.tuples(COUNTS, st.one_of(SMALL, BIG, TEXTS))),
    "record of counted": (
        RecordOf(n=GCounter(), items=Bag(), sizes=Quantiles(0.1)),
        st.tuples(COUNTS, st.one_of(SMALL, TEXTS), ADDED),
    ),
    "record": (RECORD, st.tuples(COUNTS, INTS, SMALL)),
    "record of decimals": (RecordOf(count=GCounter(), total=Sum(), mean=Average()), st.tuples(COUNTS, CENTS, CENTS)),
    "pair": (PairOf(Min(), Sum()), st.tuples(SMALL, ADDED)),
}


@pytest.fixture(autouse=True, scope="module")
def columns_of_few_keys() -> Iterator[None]:
    """Maps of one key are columns here; and one key in four has the number of another one."""
    patch = pytest.MonkeyPatch()
    patch.setattr(maps, "LEAST_KEYS", 1)
    patch.setattr(maps, "LEAST_KEYS_ON_WIRE", 1)
    patch.setattr(keys_module, "hashes", lambda spans, factor: spans.lengths & 3)
    yield
    patch.undo()


@pytest.mark.parametrize("name", share_of(INNER, 3, __name__))
def test_columns_keep_the_laws(name: str) -> None:
    inner, elements = INNER[name]
    check_laws(MapOf(inner), st.tuples(SMALL, elements), max_examples=EXAMPLES)


@pytest.mark.parametrize("keys", ONE_KIND)
def test_columns_of_every_kind_of_key_keep_the_laws(keys: str) -> None:
    check_laws(
        MapOf(PairOf(GCounter(), Max())), st.tuples(ONE_KIND[keys], st.tuples(COUNTS, SMALL)), max_examples=EXAMPLES
    )


@pytest.mark.parametrize("keys", ["ints", "texts", "pairs", "all"])
def test_maps_that_are_read_as_columns_keep_the_laws(keys: str) -> None:
    check_laws(
        ColumnsOf(PairOf(GCounter(), Max())), st.tuples(ONE_KIND[keys], st.tuples(COUNTS, SMALL)), max_examples=EXAMPLES
    )


@pytest.mark.parametrize("name", INNER)
@settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(data=st.data())
def test_a_view_reads_as_the_dict_does(name: str, data: st.DataObject) -> None:
    inner, elements = INNER[name]
    keys = data.draw(st.sampled_from([SMALL, TEXTS, PAIRS, KEYS]))
    state, other = ColumnsOf(inner), MapOf(inner)
    batches = st.lists(st.tuples(st.lists(st.tuples(keys, elements), max_size=8), st.integers(0, 1)), max_size=3)
    for batch, actor in data.draw(batches):
        for column in columns_of(batch):
            assert outcome_of_many(state, column, actor) == outcome_of_many(other, column, actor)
    view, expected = state.value, other.value
    for element in data.draw(st.lists(st.tuples(keys, elements), max_size=3)):
        outcome(state, element, 0)  # what comes later does not show
    key_column, value_column = view.columns()
    assert repr(rows_of(key_column)) == repr(list(expected))
    assert repr(values_of(value_column)) == repr(list(expected.values()))
    assert all(repr(view[key]) == repr(value) for key, value in expected.items())
    assert len(view) == len(expected) and "another" not in view
    assert repr(view) == repr(expected) == repr(dict(view))


def values_of(column: Any) -> list[Any]:
    """The values of a column, which is a dict or a tuple of columns where each value is."""
    if isinstance(column, dict):
        return [dict(zip(column, row, strict=True)) for row in zip(*map(values_of, column.values()), strict=True)]
    if isinstance(column, tuple):
        return list(zip(*map(values_of, column), strict=True))
    return rows_of(column)


def test_a_view_is_the_dict_to_whoever_compares_it() -> None:
    state = ColumnsOf(GCounter())
    state.insert_many((["b", "a"], np.array([1, 2])))
    assert state.value == {"a": 2, "b": 1} == state.value.to_dict()
    assert state.value == state.copy().value != {"a": 2}
    keys, counts = ColumnsOf(GCounter()).value.columns()
    assert keys.dtype == counts.dtype == np.int64 and len(keys) == len(counts) == 0


def as_objects(inner: Lattice[Any, Any]) -> Lattice[Any, Any]:
    """A lattice of the same kind, of which a map holds objects alone: columns are for the types themselves."""
    if isinstance(inner, RecordOf):
        return RecordOf({name: as_objects(inner[name]) for name in inner.value})
    if isinstance(inner, PairOf):
        return PairOf(as_objects(Min()), as_objects(Sum()))
    if isinstance(inner, (MaxBy, MinBy)):
        ties = "first" if inner.shape() == "first" else "all"
        return type(f"{type(inner).__name__}Object", (type(inner),), {"__slots__": ()})(ties)
    if isinstance(inner, TopK):
        k, distinct = inner.shape()
        return type("TopKObject", (TopK,), {"__slots__": ()})(k, distinct=bool(distinct))
    if isinstance(inner, Quantiles):
        return type("QuantilesObject", (Quantiles,), {"__slots__": ()})(2.0 ** -(inner.shape() + 1))
    if isinstance(inner, ThetaSketch):
        return type("ThetaObject", (ThetaSketch,), {"__slots__": ()})(inner.shape())
    if isinstance(inner, Histogram):
        return type("HistogramObject", (Histogram,), {"__slots__": ()})(inner.bounds)
    return type(f"{type(inner).__name__}Object", (type(inner),), {"__slots__": ()})()


def rows(state: MapOf[Any, Any, Any]) -> Any:
    """The wire of a map of objects."""
    return state.former_wire()


@pytest.mark.parametrize("name", INNER)
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)
@given(data=st.data())
def test_columns_hold_what_objects_hold(name: str, data: st.DataObject) -> None:
    inner, elements = INNER[name]
    keys = data.draw(st.sampled_from([SMALL, TEXTS, PAIRS, BYTES, KEYS]))
    zero = MapOf(as_objects(inner))
    made: list[tuple[Any, Any]] = [(MapOf(inner), zero.bottom()) for _ in range(2)]
    for actor, batch, whole in data.draw(
        st.lists(
            st.tuples(st.integers(0, 1), st.lists(st.tuples(keys, elements), max_size=8), st.booleans()), max_size=5
        )
    ):
        columns, objects = made[actor]
        for element in [] if whole else batch:
            assert outcome(columns, element, actor) == outcome(objects, element, actor)
        for column in columns_of(batch) if whole else ():
            assert outcome_of_many(columns, column, actor) == outcome_of_many(objects, column, actor)
        if not whole:
            other_columns, other_objects = made[1 - actor]
            assert columns.merge(other_columns) == objects.merge(other_objects)
        for mine, theirs in ((0, 1), (1, 0)):
            assert made[mine][0].leq(made[theirs][0]) == made[mine][1].leq(made[theirs][1])
    for columns, objects in made:
        assert not objects.held_as_columns
        assert rows(columns) == rows(objects)
        assert repr(columns.value) == repr(objects.value)
        assert len(columns) == len(objects)
        assert all(repr(columns.get(key)) == repr(value) for key, value in objects.value.items())
        assert encode(decode(encode(columns), MapOf(inner))) == encode(columns)
        assert encode(MapOf(inner).from_wire(rows(columns))) == encode(columns), "maps of objects are read"


def outcome(state: MapOf[Any, Any, Any], element: Any, actor: int) -> Any:
    try:
        return rows(state.insert(element, actor=actor))
    except REFUSALS as error:
        return type(error)


def outcome_of_many(state: MapOf[Any, Any, Any], column: Any, actor: int) -> Any:
    """Deltas may have keys that did not change, where these go one by one."""
    try:
        state.insert_many(column, actor=actor)
    except REFUSALS as error:
        return type(error)
    return rows(state)


@settings(max_examples=EXAMPLES)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 400), st.integers(0, 2**32 - 1), st.booleans()), max_size=10
    )
)
def test_several_actors_insert_into_some_of_many_keys(batches: list[tuple[int, int, int, bool]]) -> None:
    """The table of an actor with few of the keys has an index of its own, and gets rows later than other columns."""
    inner = RecordOf(count=GCounter(), sum=Sum())
    state, counted, added = MapOf(inner), [0] * 600, [0] * 600
    for actor, count, seed, negative in batches:
        rng = np.random.default_rng(seed)
        keys, numbers = rng.integers(0, 600, count), rng.integers(0, 10, count) * (-1 if negative else 1)
        state.insert_many((keys, (np.ones(count, np.int64), numbers)), actor=actor)
        for key, number in zip(keys.tolist(), numbers.tolist(), strict=True):
            counted[key] += 1
            added[key] += number
    assert {key: (value["count"], value["sum"]) for key, value in state.value.items()} == {
        key: (count, added[key]) for key, count in enumerate(counted) if count
    }


def test_a_map_of_columns_is_columns() -> None:
    """The tests above would hold of objects alone."""
    keys, numbers = np.arange(5), np.arange(5)
    for inner, parts in (
        (GCounter(), numbers),
        (Sum(), numbers - 2),
        (Sum(), numbers * 0.5),
        (Average(), numbers),
        (Average(), numbers * 0.5),
        (Histogram([1, 3]), numbers),
        (Max(), numbers * 0.5),
        (Min(), numbers),
        (MaxBy(), (numbers, (numbers, ["a", "b", "c", "d", "e"]))),
        (MinBy(ties="first"), (numbers * 0.5, numbers)),
        (Bag(), numbers),
        (Bag(), ["a", "b", "c", "a", "b"]),
        (Quantiles(), numbers * 0.5),
        (ThetaSketch(), numbers),
        (ThetaSketch(), ["a", 1, None, (1, 2), b""]),
        (RECORD, (numbers, numbers, numbers)),
    ):
        state = MapOf(inner)
        delta = state.insert_many((keys, parts))
        assert state.held_as_columns and delta.held_as_columns
        assert state.from_wire(state.to_wire()).held_as_columns
        other = MapOf(inner)
        other.insert_many((keys + 3, parts), actor=7)
        state.combine(other)
        assert state.held_as_columns


def test_bytes_of_a_map_that_did_not_change_are_made_once() -> None:
    state, other = MapOf(GCounter()), MapOf(GCounter())
    column = (np.arange(100), np.ones(100, np.int64))
    state.insert_many(column, actor=1)
    wire = state.to_wire()
    assert not state.merge(state.copy()) and state.to_wire() is wire
    other.insert_many(column, actor=2)
    for change in (
        lambda: state.insert_many(column, actor=1),
        lambda: state.insert((3, 1), actor=1),
        lambda: state.merge(other),
    ):
        before = state.to_wire()
        change()
        assert state.to_wire() != before
        assert state.to_wire() == state.from_wire(state.former_wire()).to_wire()


@pytest.mark.parametrize("inner", [GSet(), Bag()], ids=["set", "bag"])
def test_a_delta_without_new_members_joins_a_map_of_other_members(inner: Lattice[Any, Any]) -> None:
    """Members of the one are numbered, since one is negative; those of the other are their own numbers."""
    here, there = (ColumnsOf(RecordOf(n=GCounter(), who=inner)) for _ in range(2))
    keys = np.arange(100)
    here.insert_many((keys, (keys, np.full(100, -1))), actor=1)
    there.insert_many((keys, (keys, np.full(100, 5))), actor=2)
    whole = here.copy()
    delta = here.insert_many((keys, (keys + 1, np.full(100, -1))), actor=1)
    assert here.held_as_columns and there.held_as_columns
    expected = there.copy()
    there.merge(delta)
    there.merge(whole)
    expected.merge(here)
    assert encode(there) == encode(expected)
