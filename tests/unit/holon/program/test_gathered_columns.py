"""Gathered elements as columns: the same state as one by one, for every lattice that says it can be gathered."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.program.insert_buffer import GatheredPairs, KeyColumn, as_columns, gathering
from wcrdt import (
    Average,
    BoolAnd,
    BoolOr,
    GCounter,
    GSet,
    Histogram,
    Lattice,
    LinearRegression,
    MapOf,
    Max,
    MaxBy,
    Min,
    MinBy,
    ORSet,
    PairOf,
    PNCounter,
    RecordOf,
    Sum,
    TopK,
    Variance,
)

NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False, width=32))
PLAIN = st.one_of(
    NUMBERS, st.text(max_size=3), st.none(), st.booleans(), st.binary(max_size=2), st.decimals(-9, 9, places=2)
)
KEYS = st.one_of(
    st.text(max_size=2), st.integers(-2, 2), st.integers(), st.none(), st.tuples(st.integers(0, 2), st.text(max_size=1))
)
COUNTS, FLAGS = st.integers(0, 2**66), st.booleans()
LATTICES: list[tuple[Lattice[Any, Any], Any]] = [
    (GCounter(), COUNTS),
    (PNCounter(), st.integers(-(2**66), 2**66)),
    (Sum(), NUMBERS),
    (Average(), NUMBERS),
    (Variance(), st.integers(-99, 99)),
    (LinearRegression(), st.tuples(st.integers(-9, 9), st.integers(-9, 9))),
    (Histogram([0, 5, 10.5]), NUMBERS),
    (Max(), st.one_of(PLAIN.filter(lambda x: x is not None), st.tuples(PLAIN, PLAIN))),
    (Min(), st.integers()),
    (MaxBy(), st.tuples(st.integers(0, 3), PLAIN)),
    (MinBy("first"), st.tuples(st.integers(0, 3), st.integers(0, 3))),
    (BoolOr(), FLAGS),
    (BoolAnd(), FLAGS),
    (GSet(), st.one_of(PLAIN, st.tuples(PLAIN))),
    (TopK(3), st.tuples(st.integers(0, 9), PLAIN)),
    (TopK(2, distinct=False), st.tuples(NUMBERS, st.integers(0, 3))),
    (ORSet(), st.tuples(st.sampled_from(("add", "remove")), st.integers(0, 3))),
    (PairOf(GCounter(), GSet()), st.tuples(COUNTS, st.integers(0, 3))),
    (RecordOf(n=GCounter(), most=Max(), least=Min()), st.tuples(COUNTS, NUMBERS, NUMBERS)),
    (MapOf(GCounter()), st.tuples(KEYS, COUNTS)),
    (MapOf(Sum()), st.tuples(KEYS, NUMBERS)),
    (MapOf(TopK(2)), st.tuples(KEYS, st.tuples(st.integers(0, 3), st.text(max_size=1)))),
    (MapOf(MapOf(Max())), st.tuples(KEYS, st.tuples(KEYS, st.integers()))),
    (MapOf(RecordOf(n=GCounter(), most=Max())), st.tuples(KEYS, st.tuples(COUNTS, st.floats(-9, 9)))),
]


@pytest.mark.slow
@pytest.mark.parametrize(("zero", "elements"), LATTICES, ids=lambda each: repr(each)[:30])
@given(data=st.data())
def test_columns_and_elements_give_one_state(zero: Lattice[Any, Any], elements: Any, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(elements, min_size=1, max_size=12))
    rows = gathering(zero)
    assert rows is not None
    single = zero.bottom()
    for number, element in enumerate(drawn):
        single.insert(element, actor=1)
        zero.check(element)
        rows.add(element, number, None)
    rows.cut_back(len(drawn))
    gathered = rows.take()
    columns = zero.bottom()
    columns.insert_many(gathered.elements, actor=1)
    assert columns.to_wire() == single.to_wire() and gathered.times.tolist() == list(range(len(drawn)))
    assert not rows.times


@pytest.mark.slow
@pytest.mark.parametrize("zero", [zero for zero, _ in LATTICES if zero.kinds], ids=repr)
@given(numbers=st.lists(st.one_of(st.integers(), st.floats()), max_size=5))
def test_an_element_that_needs_no_check_is_accepted(zero: Lattice[Any, Any], numbers: list[Any]) -> None:
    for number in [*numbers, math.inf, -math.inf, math.nan, 0, -1, 0.0, -0.0, 10**400]:
        if type(number) in zero.kinds and number >= zero.least:
            zero.check(number)


def test_checks_of_ones_own_are_not_passed_over() -> None:
    class Even(Max[int]):
        def fold(self, element: int) -> int:
            if element % 2:
                raise ValueError("odd")
            return super().fold(element)

    class Doubled(GSet[int]):
        def insert(self, element: int, *, actor: int = 0) -> Any:
            return super().insert(element * 2)

    assert not Even().kinds and Even().gathers
    assert not Doubled().kinds and not Doubled().gathers and gathering(MapOf(Doubled())) is None


def test_pairs_that_are_taken_back_leave_no_key() -> None:
    rows = GatheredPairs()
    for key in ("a", "b", "a", "c", "d"):
        rows.add((key, 1), 0, None)
    rows.cut_back(3)
    assert list(rows.numbers) == ["a", "b"]
    rows.add(("d", 1), 0, None)
    column, parts = rows.take().elements
    assert list(column) == ["a", "b", "a", "d"] and parts.tolist() == [1, 1, 1, 1]


def test_keys_are_numbered_as_they_first_come() -> None:
    column = KeyColumn(np.array([0, 1, 2, 1, 3]), ["a", "b", "c", "d"]).take(np.array([3, 2, 1, 4]))
    numbers, names = column.numbered()
    assert numbers.tolist() == [0, 1, 0, 2] and names == ["b", "c", "d"]
    assert column.tolist() == ["b", "c", "b", "d"] == list(column) and list(column[1:3]) == ["c", "b"]


def test_only_what_an_array_holds_as_it_is_becomes_one() -> None:
    assert as_columns([1, 2]).dtype == np.int64 and as_columns([1.0]).dtype == np.float64
    assert as_columns([True]).dtype == np.bool_
    for mixed in ([1, 1.0], [True, 1], [2**63], ["a"], [Decimal(1)], [(1,), (1, 2)], [()]):
        assert as_columns(mixed) == mixed
    first, second = as_columns([(1, "a"), (2, "b")])
    assert first.tolist() == [1, 2] and second == ["a", "b"]
