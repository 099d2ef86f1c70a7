"""Decimals as whole numbers: of a column, and of the sums in columns of keys.

A number with ``digits`` digits behind the point is ``mantissa / 10**digits``. Mantissas are int64 here; a column that
does not fit is not taken, and its rows are added one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow, localcontext
from itertools import repeat
from operator import mul
from typing import Any

import numpy as np

from wcrdt.elements import EXACT
from wcrdt.lattices.columns import Ints, magnitude

MOST_DIGITS = 18
"""Behind the point; ten to this power is an int64."""
_INT64_MAX = 2**63 - 1
_SMALL = Context(prec=60, Emax=999, Emin=-999, traps=[Inexact, InvalidOperation, Overflow, Underflow])
"""Of any result that would not be exact it makes an error."""
_KINDS = frozenset({int, Decimal})
_POWERS = 10 ** np.arange(MOST_DIGITS + 1, dtype=np.int64)


def is_small(number: Decimal) -> bool:
    """Whether this surely is a finite number far from all limits; False means nothing."""
    try:
        return _SMALL.plus(number).is_finite()
    except ArithmeticError:
        return False


def scaled_column(column: Any) -> tuple[Ints, int] | None:
    """Mantissas and the digits behind the point that all of them have; None: they go row by row."""
    if isinstance(column, tuple):
        return None
    if (own := getattr(column, "scaled", None)) is not None:
        found = own()
        if found is not None:
            return _aligned(*found)
    rows = column.tolist() if hasattr(column, "tolist") else column
    kinds = set(map(type, rows))
    return _scaled_rows(rows) if kinds <= _KINDS and Decimal in kinds else None


def _aligned(mantissas: Ints, exponents: Ints) -> tuple[Ints, int] | None:
    """Columns of ``mantissa * 10**exponent`` with one exponent."""
    low, high = int(exponents.min()), int(exponents.max())
    digits = max(0, -low)
    if digits > MOST_DIGITS:
        return None
    if low == high == -digits:
        return mantissas, digits
    if digits + high > MOST_DIGITS or magnitude(mantissas) * 10 ** (digits + high) > _INT64_MAX:
        return None
    return mantissas * _POWERS[exponents + digits], digits


def _scaled_rows(rows: Any) -> tuple[Ints, int] | None:
    """Ints and Decimals; None for NaN, infinities and whatever has too many digits."""
    with localcontext(_SMALL):
        try:
            total: Any = sum(map(abs, rows))
            exponent = total.as_tuple().exponent  # the least one of all rows
            digits = max(0, -exponent) if isinstance(exponent, int) else MOST_DIGITS + 1
            if digits > MOST_DIGITS or total.adjusted() + digits >= MOST_DIGITS:
                return None
            return np.array(list(map(int, map(mul, rows, repeat(Decimal(10**digits))))), np.int64), digits
        except ArithmeticError:
            return None


def number_of(mantissa: int, digits: int) -> int | Decimal:
    """The exact number in its one form, as ``exact_number`` gives it."""
    power = 10**digits
    if mantissa % power == 0:
        return mantissa // power
    return EXACT.scaleb(mantissa, -digits).normalize(EXACT)


def numbers_of(mantissas: Iterable[int], digits: int) -> list[int | Decimal]:
    """The exact number of each mantissa."""
    return [number_of(mantissa, digits) for mantissa in mantissas] if digits else list(mantissas)


def digits_of(number: int | Decimal) -> int:
    """Digits behind the point of an exact number in its one form."""
    return 0 if type(number) is int else -int(number.as_tuple().exponent)  # type: ignore[union-attr]


def mantissa_of(number: int | Decimal, digits: int) -> int:
    """The inverse of ``number_of``, where the number has no more digits behind the point."""
    return number * 10**digits if type(number) is int else int(EXACT.scaleb(number, digits))


def raised(column: Ints, digits: int) -> Ints | None:
    """The column with so many more digits behind the point; None where that leaves 64 bits."""
    if digits > MOST_DIGITS or (len(column) and magnitude(column) * 10**digits > _INT64_MAX):
        return None
    return column * _POWERS[digits] if digits else column


def trailing_zeros(columns: Iterable[Ints], most: int) -> int:
    """How many digits at the end of all numbers are zeros, at most ``most``."""
    for column in columns:
        while most and (column % _POWERS[most]).any():
            most -= 1
    return most
