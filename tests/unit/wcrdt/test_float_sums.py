"""Floats add up to the float nearest to their exact sum, in any order and number of partitions, by row or column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcrdt import Average, DecodeError, MapOf, Sum, canonical_bytes
from wcrdt.codec import decode, encode
from wcrdt.lattices.exact_sums import float_sums

LARGEST = 1.7976931348623157e308
SMALLEST = 5e-324
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.floats(-1e9, 1e9)


def sum_of(numbers: Sequence[float | int | Decimal]) -> Sum:
    total = Sum()
    for number in numbers:
        total.insert(number)
    return total


def exactly(numbers: Sequence[float]) -> Fraction:
    return sum(map(Fraction, numbers), Fraction(0))


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@given(st.lists(FINITE, min_size=1, max_size=30))
def test_a_sum_is_the_float_nearest_to_the_exact_one(numbers: list[float]) -> None:
    column = Sum()
    column.insert_many(np.array(numbers))
    assert sum_of(numbers).value == column.value == nearest(exactly(numbers))
    assert canonical_bytes(column) == canonical_bytes(sum_of(numbers[::-1]))


@pytest.mark.slow
@given(st.lists(NEAR, min_size=1, max_size=300), st.integers(1, 5), st.randoms(use_true_random=False))
def test_neither_order_nor_partitions_matter(numbers: list[float], partitions: int, draw) -> None:
    expected, mean, merged = math.fsum(numbers), Average(), Average()
    mean.insert_many(np.array(numbers))
    shuffled = draw.sample(numbers, len(numbers))
    for partition in range(partitions):
        part = Average()
        part.insert_many(np.array(shuffled[partition::partitions]), actor=partition)
        merged.merge(part)
    assert merged.sum == mean.sum == expected
    assert merged.value == mean.value == nearest(exactly(numbers) / len(numbers))


@given(st.lists(st.tuples(st.integers(0, 3), FINITE), min_size=1, max_size=60))
def test_each_key_of_a_map_adds_up_by_itself(rows: list[tuple[int, float]]) -> None:
    totals = MapOf(Sum())
    totals.insert_many((np.array([key for key, _ in rows]), np.array([number for _, number in rows])))
    assert totals.value == {key: nearest(exactly([n for k, n in rows if k == key])) for key, _ in rows}


def test_what_rounding_would_lose_is_kept() -> None:
    assert sum_of([1e100, 1.0, -1e100]).value == 1.0
    assert sum_of([0.1] * 10).value == 1.0 != sum([0.1] * 10)
    assert sum_of([SMALLEST, LARGEST, -LARGEST]).value == SMALLEST
    assert sum_of([2.0**53, 1.0, SMALLEST]).value == 2.0**53 + 2  # beyond the tie, so up
    assert sum_of([LARGEST, LARGEST, -LARGEST]).value == LARGEST


def test_a_column_of_the_largest_and_the_smallest_is_exact() -> None:
    magnitudes = [math.ldexp(1.0 + 1 / 3, exponent) for exponent in range(-1074, 1023, 9)]
    numbers = [*magnitudes, *(-number for number in magnitudes[:-1]), LARGEST, -LARGEST]
    total = Sum()
    total.insert_many(np.array(numbers))
    assert total.value == magnitudes[-1]


def test_a_column_of_many_floats_that_use_all_their_bits_is_exact() -> None:
    numbers = [1.0 + math.ldexp(n * 0x9E3779B97F4A7 % 2**52, -52) for n in range(1_000)]
    total = Sum()
    total.insert_many(np.array(numbers))
    assert canonical_bytes(total) == canonical_bytes(sum_of(numbers))


def test_a_sum_beyond_the_largest_float_is_infinite_until_it_comes_back() -> None:
    total = sum_of([LARGEST, LARGEST])
    assert total.value == math.inf
    total.insert(-LARGEST)
    assert total.value == LARGEST
    assert sum_of([-LARGEST, -LARGEST]).value == -math.inf


@pytest.mark.parametrize("as_column", [False, True])
def test_infinities_stay_and_those_of_both_signs_are_no_number(as_column: bool) -> None:
    def value(*numbers: float) -> float:
        if not as_column:
            return float(sum_of(numbers).value)
        total = Sum()
        total.insert_many(np.array(numbers))
        return float(total.value)

    assert value(math.inf, 1.0, -LARGEST) == math.inf
    assert value(2.0, -math.inf) == -math.inf
    assert math.isnan(value(math.inf, -math.inf, 1.0))


@pytest.mark.parametrize("make", [Sum, Average])
def test_a_nan_is_refused_by_name_and_changes_nothing(make) -> None:
    total = make()
    with pytest.raises(ValueError, match="NaN cannot be added up"):
        total.insert(math.nan)
    with pytest.raises(ValueError, match="NaN cannot be added up"):
        total.insert_many(np.array([1.0, math.nan]))
    assert total == make()


def test_one_float_makes_a_float_of_the_sum_and_ints_and_decimals_are_exact_in_it() -> None:
    assert repr(sum_of([1, 2.0]).value) == "3.0"
    assert repr(sum_of([0.0, -0.0]).value) == "0.0"
    assert repr(Sum().value) == "0"
    assert sum_of([2**60, 0.5, -(2**60)]).value == 0.5
    assert sum_of([Decimal("0.1"), 0.1]).value == float(Fraction(1, 10) + Fraction(0.1))
    mean = Average()
    mean.insert(1)
    mean.insert(0.5)
    assert (mean.value, mean.sum, mean.count, mean.truncated()) == (0.75, 1.5, 2, 0)


def test_floats_of_numpy_of_every_width_are_taken() -> None:
    for dtype in (np.float16, np.float32, np.float64, ">f8"):
        total = Sum()
        total.insert_many(np.array([0.5, 0.25], dtype))
        total.insert(np.array([1], dtype)[0])
        assert total.value == 1.75


def test_what_has_no_floats_is_written_as_before_and_what_has_some_is_short() -> None:
    assert sum_of([1, -2]).to_wire() == [[0, 1, 2]]
    assert sum_of([0.5, -1.0]).to_wire() == [[0, 0, 0, 1, 1073, 1, 1074, 0, 0, 2]]
    assert len(encode(sum_of([19.99] * 1_000))) < 50


def test_what_is_read_back_is_equal_and_merges() -> None:
    for numbers in ([0.1, 3], [math.inf], [-SMALLEST, LARGEST], [Decimal("0.5"), 0.5]):
        total, mean = sum_of(numbers), Average()
        for number in numbers:
            mean.insert(number)
        assert decode(encode(total), Sum()) == total
        assert decode(encode(mean), Average()) == mean
        assert not total.merge(decode(encode(total), Sum()))


@pytest.mark.parametrize(
    "row",
    [
        [0, 0, 0, 2, 1, 0, 0, 0, 0, 1],  # even
        [0, 0, 0, 1, -1, 0, 0, 0, 0, 1],
        [0, 0, 0, 1, 1 << 40, 0, 0, 0, 0, 1],  # a bomb
        [0, 0, 0, -1, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 5, 0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0],  # of no float
        [0, 0, 0, 0, 0, 0, 0, 2, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, -1, 0, 1],
        [0, -1, 0, 1, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0, 0, 0, 0, 1],
        [0, 0, 0, [1, 1.5], 0, 0, 0, 0, 0, 1],
    ],
)
def test_a_row_that_no_floats_give_is_refused(row: list[object]) -> None:
    with pytest.raises((DecodeError, TypeError)):
        Sum().from_wire([row])


def test_an_average_of_fewer_elements_than_floats_is_refused() -> None:
    with pytest.raises(DecodeError):
        Average().from_wire([[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 2]])


def test_the_order_of_two_states_holds_where_one_has_floats() -> None:
    ints, more, floats = sum_of([1]), sum_of([1, 2, 0.5]), sum_of([0.5])
    assert ints.leq(more) and floats.leq(more) and not more.leq(ints) and not floats.leq(ints)
    assert not sum_of([3]).leq(sum_of([1, 0.5]))
    assert Sum().leq(floats) and not floats.leq(Sum())


@given(st.lists(FINITE, max_size=20))
def test_steps_are_exact(numbers: list[float]) -> None:
    assert [Fraction(float_sums.steps_of(each), 1 << float_sums.STEP_BITS) for each in numbers] == list(
        map(Fraction, numbers)
    )
