"""Elements that are counted by a key (wcrdt/lattices/counted.py)."""

from __future__ import annotations

import math
import random
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from wcrdt import Bag, MapOf, Quantiles, canonical_bytes


def test_a_bag_counts_equal_elements_of_all_actors_in_their_order() -> None:
    bag = Bag[Any]()
    bag.insert_many(["b", "a", "b"], actor=1)
    bag.insert("b", actor=2)
    bag.insert(7, actor=2)
    assert bag.value == {7: 1, "a": 1, "b": 3}
    assert list(bag.value) == [7, "a", "b"] and bag.count == 5
    twin = Bag[Any]()
    twin.merge(bag)
    assert not twin.merge(bag) and canonical_bytes(twin) == canonical_bytes(bag)
    with pytest.raises(TypeError, match="cannot be a key"):
        bag.insert(1.5)


@pytest.mark.parametrize("error", [0.3, 0.01, 1e-5])
def test_each_quantile_is_within_its_error_of_the_exact_one(error: float) -> None:
    draw = random.Random(1)
    numbers = [draw.choice((-1, 1)) * 10 ** draw.uniform(-20, 20) for _ in range(2000)] + [0.0] * 100
    quantiles = Quantiles(error)
    quantiles.insert_many(np.array(numbers))
    ordered = sorted(numbers)
    for percent in (0, 1, 10, 25, 50, 75, 90, 99, 100):
        exact = ordered[max(1, math.ceil(percent * len(numbers) / 100)) - 1]
        found = quantiles.quantile(Decimal(percent) / 100)
        assert found is not None and abs(found - exact) <= error * abs(exact)
    assert quantiles.count == quantiles.value.count == len(numbers)


def test_one_by_one_and_as_a_column_numbers_fall_into_the_same_buckets() -> None:
    edges = [0, -0.0, 1, -1, 2**53 + 1, -(2**63), 2**63 - 1, 5e-324, -5e-324, sys.float_info.max, 1.5, 0.1, 3]
    whole = [edge for edge in edges if type(edge) is int]
    for column in (edges, np.array([float(edge) for edge in edges]), np.array(whole, np.int64)):
        together, alone = Quantiles(), Quantiles()
        together.insert_many(column)
        for number in column:
            alone.insert(number.item() if hasattr(number, "item") else number)
        assert canonical_bytes(together) == canonical_bytes(alone)
    largest = Quantiles()
    largest.insert(sys.float_info.max)
    assert largest.quantile(1) == pytest.approx(sys.float_info.max, rel=0.01)
    exact = Quantiles()
    exact.insert_many([Decimal("0.1"), 0.1])
    assert len(exact.value.buckets) == 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400, Decimal("Infinity")])
def test_numbers_beyond_floats_are_refused_and_change_nothing(number: Any) -> None:
    quantiles = Quantiles()
    columns = [[1.0, number]] + ([np.array([1.0, number])] if isinstance(number, float) else [])
    for column in columns:
        with pytest.raises(ValueError, match=r"number|finite|NaN"):
            quantiles.insert_many(column)
    with pytest.raises((TypeError, ValueError)):
        quantiles.check(number)
    for wrong in ("1", None, True):
        with pytest.raises(TypeError, match="take numbers"):
            quantiles.insert(wrong)  # type: ignore[arg-type]
    assert quantiles == quantiles.bottom() and quantiles.quantile(0.5) is None


def test_errors_that_no_float_can_keep_are_refused() -> None:
    for error in (0, -0.1, 1, 1e-9):
        with pytest.raises(ValueError, match="the error of quantiles"):
            Quantiles(error)
    with pytest.raises(TypeError):
        Quantiles(0.1).merge(Quantiles(0.01))


def test_quantiles_by_key() -> None:
    by_key = MapOf(Quantiles(0.1))
    by_key.insert_many((["a", "a", "b"], [1.0, 100.0, 5.0]))
    found = {key: distribution.quantile(1) for key, distribution in by_key.value.items()}
    assert found == {"a": pytest.approx(100, rel=0.1), "b": pytest.approx(5, rel=0.1)}
