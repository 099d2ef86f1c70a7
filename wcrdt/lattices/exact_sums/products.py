"""The exact sum of products, and products of floats without rounding.

In a column the product of two floats is a float and the float that rounding took from it; both are added up (T. J.
Dekker, "A floating-point technique for extending the available precision", 1971).
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from wcrdt.elements import EXACT, exact_number
from wcrdt.lattices.columns import Groups, int_column, magnitude
from wcrdt.lattices.exact_sums import float_sums
from wcrdt.lattices.exact_sums.float_sums import STEP_BITS, Floats
from wcrdt.lattices.exact_sums.sums import NOTHING, ExactSums, Number, negated
from wcrdt.lattices.tallies import Row

_SPLIT = float((1 << 27) + 1)
_LEAST, _MOST = 2.0**-480, 2.0**480
"""Products of floats between these, and what rounding takes from them, neither overflow nor vanish."""
_EXACT_INT = 1 << 53
_INFINITIES = (math.inf, -math.inf)


class SumOfProducts(ExactSums[tuple[Number, Number], Number]):
    """The exact sum of ``x * y`` over pairs."""

    __slots__ = ()
    tag: ClassVar[str] = "products"
    compact: ClassVar[bool] = True
    width = 2
    degree = 2

    def fold(self, element: tuple[Number, Number]) -> Row:
        x, y = element
        if float_sums.is_float(x) or float_sums.is_float(y):
            return NOTHING + _product_part(_float_or_int(x), _float_or_int(y))
        product = _times(exact_number(x), exact_number(y))
        return (product, 0) if product >= 0 else (0, negated(product))

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        x, y = map(int_column, column)
        if x is not None and y is not None:
            return self._exact_groups(x * y, groups) if magnitude(x) * magnitude(y) < 1 << 63 else None
        left, right = map(_multipliable, column)
        if left is None or right is None:
            return None
        return [NOTHING + part for part in _product_parts(groups.arranged(left), groups.arranged(right), groups)]

    @property
    def value(self) -> Number:
        return self._total()


def _times(x: int | Decimal, y: int | Decimal) -> int | Decimal:
    if type(x) is int and type(y) is int:
        return x * y
    return exact_number(EXACT.multiply(Decimal(x), Decimal(y)))


def _float_or_int(x: Any) -> float | int:
    if float_sums.is_float(x):
        return float(x)
    number = exact_number(x)
    if type(number) is not int:
        raise TypeError("a float and a Decimal of one point are not multiplied; give both as floats or as Decimals")
    return number


def _product_part(x: float | int, y: float | int) -> tuple[int, ...]:
    """The part of a row for one product, with a float in it."""
    if x != x or y != y:
        raise float_sums.not_added()
    if x in _INFINITIES or y in _INFINITIES:
        if not (x and y):
            return (0, 0, 1, 1, 1)  # no number, like infinities of both signs
        return (0, 0, 1, 0, 1) if (x > 0) == (y > 0) else (0, 0, 0, 1, 1)
    steps = _steps(x) * _steps(y)
    return (steps, 0, 0, 0, 1) if steps >= 0 else (0, -steps, 0, 0, 1)


def _steps(x: float | int) -> int:
    return x << STEP_BITS if type(x) is int else float_sums.steps_of(x)


def _multipliable(column: Any) -> Floats | None:
    """The column as floats whose products are exact in two floats each; None: it goes row by row."""
    ints = int_column(column)
    if ints is not None:
        return ints.astype(np.float64) if magnitude(ints) <= _EXACT_INT else None
    floats = float_sums.float_column(column)
    if floats is None:
        return None
    sizes = np.abs(floats)
    smallest = np.where(sizes > 0, sizes, 1.0).min()
    return floats if sizes.max() <= _MOST and smallest >= _LEAST else None  # NaN is neither


def _product_parts(x: Floats, y: Floats, groups: Groups) -> list[tuple[int, ...]]:
    """The part of each group's row; the columns are arranged by group."""
    product, lost = two_products(x, y)
    weights = (None, np.copysign(1.0, product))
    sizes, signed = float_sums.exact_totals(np.abs(product), weights, groups.starts)
    more_signed, more_sizes = float_sums.exact_totals(lost, weights, groups.starts)
    parts = zip(sizes, more_sizes, signed, more_signed, groups.sizes().tolist(), strict=True)
    found = []
    for size, more_size, total, more_total, count in parts:
        gained = (size + more_size + total + more_total) >> 1
        found.append((gained << STEP_BITS, (size + more_size - gained) << STEP_BITS, 0, 0, count))
    return found


def two_products(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The products as floats, and what rounding took from each: together they are exact."""
    product = x * y
    x_high, y_high = x * _SPLIT, y * _SPLIT
    x_high, y_high = x_high - (x_high - x), y_high - (y_high - y)
    x_low, y_low = x - x_high, y - y_high
    return product, x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)
