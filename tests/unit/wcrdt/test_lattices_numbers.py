"""Counters, sums, averages and histograms."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from wcrdt import Average, GCounter, Histogram, PNCounter, Sum, canonical_bytes

EDGES = np.array([2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 5], np.int64)


def merged(*values):
    total = values[0].bottom()
    for value in values:
        total.merge(value)
    return total


def test_counts_of_two_actors_add_up_and_the_longer_prefix_of_one_actor_wins():
    first, second = GCounter(), GCounter()
    first.insert(2, actor=1)
    early = first.copy()
    first.insert(3, actor=1)
    second.insert(10, actor=2)
    assert merged(early, second, first, early).value == 15


def test_a_counter_that_grows_refuses_to_shrink():
    counter = GCounter()
    with pytest.raises(ValueError, match="cannot go down by 1"):
        counter.insert(-1)
    with pytest.raises(ValueError, match="cannot go down by 4"):
        counter.insert_many(np.array([5, -4]))
    with pytest.raises(ValueError, match="cannot go down by 4"):
        counter.insert_many([5, -4])
    assert counter == GCounter()


@pytest.mark.parametrize("refused", [True, 1.5, Decimal("1.5"), "1"])
def test_counters_count_in_ints(refused):
    for counter in (GCounter(), PNCounter()):
        with pytest.raises(TypeError):
            counter.insert(refused)


@pytest.mark.parametrize("column", [np.array([True]), np.array([1.0]), np.array(["1"]), [1, True]])
def test_columns_of_other_kinds_are_refused_like_their_elements(column):
    counter = PNCounter()
    with pytest.raises(TypeError):
        counter.insert_many(column)
    assert counter == PNCounter()


@pytest.mark.parametrize("make", [PNCounter, Sum])
def test_sums_of_a_column_do_not_overflow(make):
    total = make()
    total.insert_many(EDGES)
    assert total.value == sum(EDGES.tolist()) == 3
    assert total.to_wire() == [[0, [1, (2**64 + 3).to_bytes(9, "big")], [1, (2**64).to_bytes(9, "big")]]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, ">i4"])
def test_integer_columns_of_every_width_are_taken(dtype):
    column = np.array([1, 2, 100], dtype)
    total = Sum()
    total.insert_many(column)
    assert total.value == 103
    large = Sum()
    large.insert_many(np.array([2**64 - 1, 1], np.uint64))
    assert large.value == 2**64


def test_ints_and_decimals_mix_exactly_and_have_one_form():
    mixed, ints = Sum(), Sum()
    for number in (Decimal("0.1"), Decimal("0.2"), Decimal("0.70"), 1):
        mixed.insert(number)
    ints.insert(2)
    assert type(mixed.value) is int
    assert canonical_bytes(mixed) == canonical_bytes(ints)


@pytest.mark.parametrize("element", [True, "1", None, 1j, np.longdouble(1)])
def test_what_is_no_number_is_refused(element):
    with pytest.raises(TypeError, match="an exact number is an int or a Decimal"):
        Sum().insert(element)
    with pytest.raises(TypeError):
        Average().insert_many([1, element])


def test_a_negative_sum_with_long_decimals_is_not_rounded():
    total = Sum()
    total.insert(Decimal("-1." + "1" * 60))
    assert str(total.value) == "-1." + "1" * 60


def test_an_average_is_exact_and_truncates_towards_zero_as_sql_does():
    mean = Average()
    assert mean.value is None and mean.truncated() is None
    mean.insert_many(np.array([-3, -4]))
    assert (mean.value, mean.truncated(), mean.sum, mean.count) == (Fraction(-7, 2), -3, -7, 2)
    mean.insert(Decimal("7.5"))
    assert mean.value == Fraction(1, 6)


def test_an_average_counts_zeros():
    mean = Average()
    mean.insert(0)
    assert (mean.value, mean.count) == (0, 1)


def test_a_bucket_takes_what_is_at_or_below_its_bound():
    histogram = Histogram([0, 10])
    histogram.insert_many(np.array([-5, 0, 1, 10, 11, 2**62]))
    assert histogram.value == (2, 2, 2)
    assert histogram.count == 6


def test_a_quantile_is_the_bound_of_the_bucket_that_holds_its_rank():
    histogram = Histogram([10, 20, 30])
    histogram.insert_many([5] * 90 + [15] * 9 + [25])
    found = [histogram.quantile(q) for q in (0, 0.5, 0.9, 0.91, 0.99, Fraction(991, 1000), 1)]
    assert found == [10, 10, 10, 20, 20, 30, 30]
    histogram.insert(31)
    assert histogram.quantile(1) is None  # above the last bound


def test_a_quantile_of_nothing_or_outside_of_the_range():
    assert Histogram([1]).quantile(0.5) is None
    for q in (-0.1, 1.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Histogram([1]).quantile(q)


@pytest.mark.parametrize("bounds", [[], [1, 1], [2, 1], [1, 1.0]])
def test_bounds_ascend(bounds):
    with pytest.raises(ValueError, match="must ascend"):
        Histogram(bounds)


def test_bounds_of_mixed_types_are_compared_exactly():
    histogram = Histogram([2**53, Decimal("9007199254740992.5")])
    histogram.insert_many(np.array([2**53, 2**53 + 1]))
    assert histogram.value == (1, 0, 1)


def test_values_of_different_types_or_shapes_are_not_merged():
    with pytest.raises(TypeError, match="gcounter cannot be merged with a pncounter"):
        GCounter().merge(PNCounter())
    with pytest.raises(TypeError, match="shape"):
        Histogram([1]).merge(Histogram([2]))
