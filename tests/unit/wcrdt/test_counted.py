"""Elements that are counted by a key (wcrdt/lattices/counted.py)."""

from __future__ import annotations

import base64
import math
import random
import sys
import zlib
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from wcrdt import Bag, GCounter, MapOf, Quantiles, RecordOf, canonical_bytes, decode, encode
from wcrdt.codec import DecodeError
from wcrdt.lattices.keyed.packing import narrow

MANY = [i * 7 % 23 for i in range(40)]


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


# Of a release in which a bag was an object a key: its own counts were columns where there were 16 of them.
WRITTEN: dict[str, tuple[Any, Any, str]] = {
    "bag": (
        Bag[Any](),
        lambda key: MANY if key == 3 else ["x", "y", "x"] if key == 5 else [key, key, 5],
        (
            "eNp9zr0NgmAQBuDvAAXkR1DU2LuAG7iCI2hMjIWJpTTOIAcLECunkOIrdQOjcQJLW8HwEkyMlysuz73JXUKH9WzDh/lsmV2Fz4I/"
            "TUzEjegzcNF10ZiVbzETSldJJkgOBCmq1mjqhtmybMdte36nG/T6HAupvk63PJ5kRDIQPyomqd6fu78Z9rh4oH59yJxu80nhNIwK"
            "HnG5aSI4huiQCcSATCEmZAFpQUKIBTnvQXZFR5BTkQS5FT1AbdCFBMwr7Q2aQ3g7"
        ),
    ),
    "bag of texts": (
        Bag[Any](),
        lambda key: [f"t{key % 3}", "é", "é"],
        (
            "eNqbwrg4N7Fg0uKkxPQDdxgEJzFMmrSoxGDiJAbGSYsOr5wEohmBCCRqiC7KAhI1QhflxGqCAFYTJLGaoILVBEOsJjhgNSEQqwkp"
            "WE2oxGrCmQlYjTizEqsZZ45gN+QhVkPOMjJgMwUAV0Wfcg=="
        ),
    ),
    "quantiles": (
        Quantiles(),
        lambda key: [float(number) for number in MANY] if key == 3 else [key * 1.5, -key, 0.1],
        (
            "eNqbwrg4N7Fg0srC0sS8ksyc1GK2OwyCkxgmgRHjJEbGSWf/PZ8IZk6edOn/fwb7iciCZ/8/BNMsIMl///+jSJ5jYGRQBLM4pzAu"
            "zJzCwMJ0RGfvfxsGGSDkgUIWNIgMJk1mOML8ff89oBlTDjAyHhFhwAImMx5hvv++Dq+aSQIQ9+3HcF8imCUJkV6PIV0JZqlApOdj"
            "SHeCWYYQ6X4M6alglgNEuh5DeiGYFQiRLseQXgtmpUCk8zGkd4JZlRDpdAzpw2DWmQkQ+XgM+ZMQ+ZUQ+XAM+fMQ+SMQeX8M+asQ"
            "+YcQeXcM+duQ9MHIAFFgj6EAnHAAuawLMQ=="
        ),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_maps_of_objects_that_an_earlier_release_wrote_are_read(name: str) -> None:
    inner, elements, data = WRITTEN[name]
    state = MapOf(inner)
    for key in range(17):
        for number, element in enumerate(elements(key)):
            state.insert((key * key, element), actor=number % 2)
    back = decode(zlib.decompress(base64.b64decode(data)), MapOf(inner))
    assert back.value == state.value and back == state
    assert back.insert_many(([4] * 64, [9] * 64)) and back.value[0] == state.value[0]


@pytest.mark.parametrize("inner", [Bag[Any](), Quantiles()])
def test_counts_of_many_elements_have_one_form_on_the_wire(inner: Any) -> None:
    rows = [[element, [[0, 1]]] for element in range(16)]
    few = inner.from_wire(rows[:15])
    assert few.count == 15 and inner.from_wire(few.to_wire()) == few
    for wire, like in ((rows, inner), ([[1, rows], [2, few.to_wire()]], MapOf(inner))):
        with pytest.raises(DecodeError, match="written as columns"):
            like.from_wire(wire)


def test_a_bucket_of_no_number_is_refused() -> None:
    quantiles = Quantiles()
    keys = np.arange(64)
    quantiles.insert(sys.float_info.max)
    last = quantiles.to_wire()[0][0]
    assert quantiles.from_wire([[-last, [[0, 1]]]]).quantile(1) == -quantiles.quantile(1)  # type: ignore[operator]
    for bucket in (last + 1, -last - 1, "1", 2**70):
        with pytest.raises(DecodeError):
            quantiles.from_wire([[bucket, [[0, 1]]]])
    by_key = MapOf(Quantiles())
    by_key.insert_many((keys, keys * 1.0))
    wire = by_key.to_wire()
    for number in (last + 1, -last - 1, 2**40):
        buckets = np.arange(64) - 32
        buckets[0 if number < 0 else -1] = number
        with pytest.raises(DecodeError, match="a bucket of no number"):
            by_key.from_wire([*wire[:-1], [*wire[-1][:4], "i", narrow(buckets)]])
    assert by_key.from_wire(wire) == by_key


@pytest.mark.parametrize("odd", [None, "text", 1 << 70, (1, "pair")])
def test_a_map_of_bags_becomes_objects_where_it_has_to(odd: Any) -> None:
    state, whole = MapOf(Bag[Any]()), MapOf(RecordOf(n=GCounter(), items=Bag[Any]()))
    keys, ones = np.arange(100), np.ones(100, np.int64)
    state.insert_many((keys, keys % 7))
    whole.insert_many((keys, (ones, keys % 7)))
    assert state.held_as_columns and whole.held_as_columns
    state.insert((3, odd), actor=1)
    whole.insert_many(([3], ([2], [odd])), actor=1)
    state.insert_many((keys, keys % 7))
    assert not state.held_as_columns and not whole.held_as_columns
    assert state.value[3] == {3: 2, odd: 1} and whole.value[3] == {"n": 3, "items": {3: 1, odd: 1}}
    assert state.value[4] == {4: 2} and decode(encode(state), MapOf(Bag[Any]())) == state


def test_counts_of_a_bag_by_key_never_wrap() -> None:
    state = MapOf(Bag[int]())
    state.insert_many((np.arange(64), np.arange(64) * 0))
    wire = state.to_wire()
    counts = wire[-1][3]
    full = state.from_wire(
        [*wire[:-1], [*wire[-1][:3], [[0, None, [[0, narrow(np.full(64, 2**63 - 1))]]]], *wire[-1][4:]]]
    )
    assert counts != full.to_wire()[-1][3] and full.held_as_columns
    full.insert_many((np.arange(64), np.arange(64) * 0))
    assert full.value[5] == {0: 2**63} and not full.held_as_columns
