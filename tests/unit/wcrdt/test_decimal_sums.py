"""Sums of Decimals by columns are those of Decimals one by one."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from holon.columnar.structs.decimals import Decimals
from wcrdt import Average, Lattice, MapOf, Sum, encode

KEYS = [f"key {number % 80}" for number in range(400)]
REFUSAL = r"cannot be an element|beyond the limit"


def decimals(mantissas: Sequence[int], exponents: Sequence[int]) -> Decimals:
    return Decimals(np.array(mantissas, np.int64), np.array(exponents, np.int64))


def cents(step: int = 7) -> Decimals:
    return decimals([step * number - 900 for number in range(400)], [-2] * 400)


@pytest.mark.parametrize("inner", [Sum(), Average()])
def test_columns_lists_and_single_inserts_give_equal_bytes(inner: Lattice[Any, Any]) -> None:
    amounts = cents()
    single = MapOf(inner)
    for key, amount in zip(KEYS, amounts, strict=True):
        single.insert((key, amount))
    with localcontext() as context:
        context.prec = 3  # of the thread: no sum goes by it
        for column in (amounts, list(amounts), np.array(list(amounts), object)):
            many = MapOf(inner)
            many.insert_many((KEYS, column))
            assert many.held_as_columns
            assert encode(many) == encode(single) and repr(many.value) == repr(single.value)
            one = type(inner)()
            one.insert_many(column)
            assert not isinstance(one, Sum) or one.value == 1986


def test_maps_with_different_digits_are_joined_as_columns() -> None:
    cent, mille, whole = MapOf(Sum()), MapOf(Sum()), MapOf(Sum())
    cent.insert_many((KEYS, cents()), actor=1)
    mille.insert_many((KEYS, decimals(range(400), [-3] * 400)), actor=2)
    whole.insert_many((KEYS, np.arange(400)), actor=3)
    joined = whole.copy()
    assert joined.merge(cent) and joined.merge(mille) and not joined.merge(whole)
    assert joined.held_as_columns and whole.leq(joined) and cent.leq(joined) and not joined.leq(cent)
    assert joined.value["key 1"] == sum(Decimal(7 * n - 900) / 100 + Decimal(n) / 1000 + n for n in range(1, 400, 80))


def test_zeros_behind_the_point_do_not_use_up_64_bits() -> None:
    """1.000000000000000000 times a thousand does not fit with so many digits, and does with none."""
    many = MapOf(Sum())
    for _ in range(2):
        many.insert_many((KEYS, decimals([10**17] * 400, [-17] * 400)))
    many.insert_many((KEYS, np.full(400, 10**12)))
    assert many.held_as_columns and many.value["key 0"] == 10 + 5 * 10**12


def test_sums_beyond_64_bits_are_objects_and_stay_exact() -> None:
    many = MapOf(Sum())
    many.insert_many((KEYS, decimals([10**15 + 1] * 400, [-15] * 400)))
    assert many.held_as_columns
    many.insert_many((KEYS, np.full(400, 10**6)))
    assert not many.held_as_columns and many.value["key 0"] == 5 * (10**6 + Decimal("1.000000000000001"))


@pytest.mark.parametrize("refused", [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1E+7000")])
def test_decimals_that_are_refused_one_by_one_are_refused_in_columns(refused: Decimal) -> None:
    many = MapOf(Sum())
    many.insert_many((KEYS, cents()))
    before = encode(many)
    for column in ([*[*cents()][1:], refused], [refused] * 400):
        with pytest.raises(ValueError, match=REFUSAL):
            many.insert_many((KEYS, column))
        with pytest.raises(ValueError, match=REFUSAL):
            Sum().check(column[-1])
        assert encode(many) == before


@pytest.mark.parametrize(
    "text", ["1E-5000", "0E-30", "1E+17", "1." + "0" * 100, "123456789.123456789123456789", "1E+40"]
)
def test_decimals_of_any_size_are_added_exactly(text: str) -> None:
    column = [Decimal(text), Decimal("-0.25"), 3, Decimal(text)]
    many, single = Sum(), Sum()
    many.insert_many(column)
    for each in column:
        single.check(each)
        single.insert(each)
    assert encode(many) == encode(single)


@pytest.mark.parametrize("exponents", [[-19], [-19, -1], [-30]])
def test_numbers_with_more_digits_than_an_int64_has_are_added_one_by_one(exponents: list[int]) -> None:
    column = decimals([1] * len(exponents), exponents)
    many, single = MapOf(Sum()), MapOf(Sum())
    for found in (many, single):
        found.insert_many((KEYS, cents()))
    many.insert_many((KEYS[: len(exponents)], column))
    for key, amount in zip(KEYS, column, strict=False):
        single.insert((key, amount))
    assert encode(many) == encode(single) and repr(many.value) == repr(single.value)
