"""Elements: which are taken, in which form, and how they are told apart and ordered."""

import decimal
from collections import namedtuple
from decimal import Decimal
from enum import IntEnum
from itertools import pairwise

import numpy as np
import pytest

from wcrdt.elements import element_of, exact_add, exact_number, identity, order_key, ordered, plain, precedes


class Colour(IntEnum):
    RED = 1


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (np.int64(5), 5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(True), True),
        (np.float32(0.5), 0.5),
        (np.str_("é"), "é"),
        (Colour.RED, 1),
        (Point(1, np.int8(2)), (1, 2)),
        (Decimal("1.500"), Decimal("1.5")),
        (Decimal("100"), Decimal("1E+2")),
        (Decimal("-0.0"), Decimal(0)),
        (-0.0, 0.0),
        (float("inf"), float("inf")),
    ],
)
def test_an_element_has_one_plain_form(given, taken):
    found = plain(given)
    assert (type(found), repr(found)) == (type(taken), repr(taken))


@pytest.mark.parametrize("refused", [[1], {1}, {"a": 1}, object(), bytearray(b"x"), 1j, np.datetime64(1, "s")])
def test_other_types_are_refused(refused):
    with pytest.raises(TypeError, match="cannot be an element"):
        plain(refused)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (float("nan"), "NaN"),
        (np.float64("nan"), "NaN"),
        (Decimal("NaN"), "finite"),
        (Decimal("Infinity"), "finite"),
        (Decimal("1E+7000"), "exponent"),
        (Decimal("1E-7000"), "exponent"),
        ("\ud800", "surrogate"),
        ((1, ("\udfff",)), "surrogate"),
    ],
)
def test_values_without_order_or_bytes_are_refused(refused, reason):
    with pytest.raises(ValueError, match=reason):
        plain(refused)


def test_tuples_nest_only_so_deep():
    nested: tuple = ()
    for _ in range(15):
        nested = (nested,)
    assert plain(nested) == nested
    with pytest.raises(ValueError, match="nested deeper"):
        plain((nested,))


def test_elements_that_python_takes_for_one_another_keep_apart():
    ones = [1, True, 1.0, Decimal(1), (1,), (True,), (1.0,), ((True,),), "1", b"1"]
    keys = [identity(plain(one)) for one in ones]
    assert len(dict.fromkeys(keys)) == len(ones)
    assert [repr(element_of(key)) for key in keys] == [repr(one) for one in ones]
    assert identity(plain((True, 1.0))) == identity(plain((np.bool_(True), np.float64(1.0))))


def test_the_order_is_total_and_by_exact_value():
    ascending = [
        None, False, True, float("-inf"), -(2**70), -1.5, 0, 0.0, Decimal(0), Decimal("0.1"), 0.1, 1, 2**53,
        2.0**53, 2**53 + 1, 2**70, float("inf"), "", "a", "é", "\U0001f600", b"", b"a", (), (1,), (1, 0), (1.0,), (2,),
    ]  # fmt: skip
    assert ordered(identity(x) for x in reversed(ascending)) == [identity(x) for x in ascending]
    for a, b in pairwise(ascending):
        assert precedes(a, b) and not precedes(b, a) and order_key(a) < order_key(b)


def test_exact_numbers_do_not_depend_on_the_ambient_decimal_context():
    with decimal.localcontext(decimal.Context(prec=3)):
        total = exact_add(Decimal("12345678901234567890.5"), 1)
        assert str(total) == "12345678901234567891.5"
        assert exact_add(Decimal("0.5"), Decimal("0.5")) == 1
        assert type(exact_add(Decimal("0.5"), Decimal("0.5"))) is int
        assert str(exact_add(Decimal("1E+100"), Decimal("1E-100"))).count("0") == 199


def test_whole_decimals_are_ints():
    assert [type(exact_number(x)) for x in (Decimal("2.0"), Decimal("2E3"), np.int8(2), Decimal("2.5"))] == [
        int, int, int, Decimal,
    ]  # fmt: skip


@pytest.mark.parametrize("refused", [True, np.bool_(False), 1.0, np.float64(2), "1", None, np.timedelta64(1)])
def test_only_exact_numbers_are_summed(refused):
    with pytest.raises(TypeError, match="exact number"):
        exact_number(refused)
