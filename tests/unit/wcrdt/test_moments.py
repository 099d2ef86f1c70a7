"""Variances and regressions are those of the exact numbers, rounded once, in any order and number of partitions."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcrdt import Line, LinearRegression, MapOf, Variance, canonical_bytes
from wcrdt.codec import decode, encode
from wcrdt.lattices.exact_sums.float_sums import nearest
from wcrdt.lattices.exact_sums.products import two_products

NEAR = st.floats(-1e6, 1e6)
FAR = st.floats(-1e150, 1e150)


def exact_variance(numbers: list[float], freedom: int = 0) -> Fraction:
    fractions = list(map(Fraction, numbers))
    mean = sum(fractions) / len(fractions)
    return sum((each - mean) ** 2 for each in fractions) / (len(fractions) - freedom)


def columns(points: list[tuple[float, float]]) -> tuple[np.ndarray, ...]:
    return tuple(map(np.array, zip(*points, strict=True)))


@pytest.mark.slow
@given(st.one_of(st.lists(NEAR, min_size=2, max_size=60), st.lists(FAR, min_size=2, max_size=9)))
def test_a_variance_is_the_float_nearest_to_the_exact_one(numbers: list[float]) -> None:
    column, rows = Variance(), Variance()
    column.insert_many(np.array(numbers))
    for number in reversed(numbers):
        rows.insert(number)
    assert canonical_bytes(column) == canonical_bytes(rows)
    assert column.value == float(exact_variance(numbers))
    assert column.sample == float(exact_variance(numbers, 1))
    assert column.deviation == math.sqrt(float(exact_variance(numbers)))


def test_what_the_textbook_formula_loses_is_kept() -> None:
    spread = Variance()
    spread.insert_many(np.array([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]))
    assert (spread.value, spread.sample, spread.mean, spread.count) == (22.5, 30.0, 1e9 + 10, 4)


def test_ints_and_decimals_have_exact_variances() -> None:
    spread, large = Variance(), Variance()
    spread.insert_many(np.array([1, 2]))
    assert (spread.value, spread.sample) == (Fraction(1, 4), Fraction(1, 2))
    spread.insert(Decimal("1.5"))
    assert spread.value == Fraction(1, 6)
    large.insert_many(np.array([2**62, -(2**62)]))
    assert large.value == Fraction(2**124)


def test_an_empty_variance_and_a_sample_of_one_are_none() -> None:
    spread = Variance()
    assert spread.value is spread.sample is spread.deviation is spread.mean is None
    spread.insert(3.5)
    assert (spread.value, spread.sample, spread.deviation) == (0.0, None, 0.0)


def test_an_infinity_leaves_no_variance_and_nan_is_refused() -> None:
    spread = Variance()
    with pytest.raises(ValueError, match="NaN cannot be added up"):
        spread.insert(math.nan)
    with pytest.raises(ValueError, match="NaN cannot be added up"):
        spread.insert_many(np.array([1.0, math.nan]))
    assert spread == Variance()
    spread.insert_many(np.array([1.0, math.inf]))
    assert math.isnan(spread.value)
    assert decode(encode(spread), Variance()) == spread


def test_a_variance_beyond_the_largest_float_is_infinite() -> None:
    spread = Variance()
    spread.insert_many(np.array([1e300, -1e300]))
    assert spread.value == math.inf


@pytest.mark.slow
@given(st.lists(st.tuples(NEAR, NEAR), min_size=1, max_size=40), st.integers(1, 4))
def test_a_line_is_that_of_least_squares(points: list[tuple[float, float]], partitions: int) -> None:
    column, merged = LinearRegression(), LinearRegression()
    column.insert_many(columns(points))
    for partition in range(partitions):
        part = LinearRegression()
        part.insert_many(points[partition::partitions], actor=partition)
        merged.merge(part)
    n, sums = len(points), [Fraction(0)] * 4
    for x, y in ((Fraction(x), Fraction(y)) for x, y in points):
        sums = [total + each for total, each in zip(sums, (x, y, x * x, x * y), strict=True)]
    below = n * sums[2] - sums[0] ** 2
    if below == 0:
        assert column.value is merged.value is None
        return
    slope = (n * sums[3] - sums[0] * sums[1]) / below
    intercept = (sums[1] - slope * sums[0]) / n
    expected = Line(nearest(*slope.as_integer_ratio()), float(intercept))
    assert column.value == merged.value == expected


def test_a_line_of_ints_is_exact_and_mixed_columns_are_taken() -> None:
    line, mixed, rows = LinearRegression(), LinearRegression(), LinearRegression()
    line.insert_many((np.array([1, 2, 3]), np.array([2, 4, 7])))
    assert line.value == Line(Fraction(5, 2), Fraction(-2, 3)) and line.count == 3
    assert line.r_squared == Fraction(75, 76)
    points = [(1, 0.5), (2, 1.0), (4, 2.5)]
    mixed.insert_many((np.array([1, 2, 4]), np.array([0.5, 1.0, 2.5])))
    for point in points:
        rows.insert(point)
    assert canonical_bytes(mixed) == canonical_bytes(rows)
    assert mixed.value == pytest.approx(statistics.linear_regression([1, 2, 4], [0.5, 1.0, 2.5]))


def test_a_line_through_one_x_is_none_and_with_an_infinity_no_number() -> None:
    line = LinearRegression()
    line.insert((1.0, 2.0))
    line.insert((1.0, 3.0))
    assert line.value is line.r_squared is None
    line.insert((2.0, 2.5))
    assert line.r_squared == 0.0
    line.insert((0.0, math.inf))
    line.insert((math.inf, 0.0))
    assert all(map(math.isnan, line.value)) and math.isnan(line.r_squared)


@pytest.mark.parametrize(
    "point", [1, (1,), (1, 2, 3), ("a", 1), (1, None), (True, 1), (Decimal("0.5"), 0.5), (math.nan, 1)]
)
def test_what_is_no_point_is_refused_and_changes_nothing(point: object) -> None:
    line = LinearRegression()
    with pytest.raises((TypeError, ValueError)):
        line.insert(point)
    with pytest.raises((TypeError, ValueError)):
        line.insert_many([(1, 1), point])
    assert line == LinearRegression()


@given(st.lists(st.tuples(st.integers(0, 2), NEAR), min_size=1, max_size=40))
def test_each_key_has_its_own_variance(rows: list[tuple[int, float]]) -> None:
    by_key = MapOf(Variance())
    by_key.insert_many(columns(rows))
    numbers = {key: [number for other, number in rows if other == key] for key, _ in rows}
    assert by_key.value == {key: float(exact_variance(each)) for key, each in numbers.items()}


@given(st.lists(st.tuples(NEAR, NEAR), min_size=1, max_size=20))
def test_a_product_and_what_rounding_took_are_exact(pairs: list[tuple[float, float]]) -> None:
    kept = [(x, y) for x, y in pairs if all(each == 0 or abs(each) > 1e-100 for each in (x, y))]
    if kept:
        product, lost = two_products(*columns(kept))
        exact = [Fraction(a) * Fraction(b) for a, b in kept]
        assert [Fraction(p) + Fraction(e) for p, e in zip(product.tolist(), lost.tolist(), strict=True)] == exact
