"""Variances and linear regressions from exact sums of products, so neither order nor partitions change them.

A difference of rounded sums of squares can lose all of its digits, and the usual way around that (B. P. Welford, 1962)
depends on the order. Exact sums lose none, and the value is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from wcrdt.lattices.columns import Groups, rows_of
from wcrdt.lattices.exact_sums.float_sums import nearest
from wcrdt.lattices.exact_sums.products import SumOfProducts
from wcrdt.lattices.exact_sums.sums import Average, ExactSums, Number
from wcrdt.lattices.records import Product


class Variance(Product[Number, Fraction | float | None]):
    """The population variance; None while empty. ``sample``, ``deviation``, ``mean`` and ``count`` are there too.

    A Fraction, without rounding; with a float among the elements a float: the one nearest to the exact variance. NaN
    once there was an infinity.
    """

    __slots__ = ()
    tag: ClassVar[str] = "variance"
    _parts: tuple[Average, SumOfProducts]

    def __init__(self) -> None:
        super().__init__((Average(), SumOfProducts()))

    def fold(self, element: Number) -> tuple[Any, ...]:
        numbers, squares = self._parts
        return numbers.fold(element), squares.fold((element, element))

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        numbers, squares = self._parts
        return _together(numbers.fold_groups(column, groups), squares.fold_groups((column, column), groups))

    def check(self, element: Number) -> None:
        self.fold(element)

    def check_many(self, elements: Any) -> None:
        for element in rows_of(elements):
            self.fold(element)

    @property
    def count(self) -> int:
        """Number of elements."""
        return self._parts[0].count

    @property
    def mean(self) -> Fraction | float | None:
        """The mean, as ``Average`` gives it."""
        return self._parts[0].value

    @property
    def value(self) -> Fraction | float | None:
        return self._over(self.count)

    @property
    def sample(self) -> Fraction | float | None:
        """The unbiased variance of a sample; None below two elements."""
        return self._over(self.count - 1)

    @property
    def deviation(self) -> float | None:
        """The population's standard deviation: the square root of the nearest float of the variance."""
        variance = self.value
        return None if variance is None else math.sqrt(variance)

    def _over(self, divisor: int) -> Fraction | float | None:
        if divisor < 1:
            return None
        numbers, squares = self._parts
        return _read(numbers.has_floats, lambda: _spread(numbers, squares, numbers) / (self.count * divisor))


class Line(NamedTuple):
    """``y = slope * x + intercept``."""

    slope: Fraction | float
    intercept: Fraction | float


class LinearRegression(Product[tuple[Number, Number], Line | None]):
    """The line of least squares through points ``(x, y)``; None until two values of x differ. ``r_squared``, ``count``.

    Fractions, without rounding; with a float among the coordinates floats: those nearest to the exact ones. NaN once
    there was an infinity.
    """

    __slots__ = ()
    tag: ClassVar[str] = "regression"
    _parts: tuple[Average, Average, SumOfProducts, SumOfProducts, SumOfProducts]

    def __init__(self) -> None:
        super().__init__((Average(), Average(), SumOfProducts(), SumOfProducts(), SumOfProducts()))

    def fold(self, element: tuple[Number, Number]) -> tuple[Any, ...]:
        x, y = self._point(element)
        columns = (x, y, (x, x), (x, y), (y, y))
        return tuple(part.fold(each) for part, each in zip(self._parts, columns, strict=True))  # type: ignore[arg-type]

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        if not isinstance(column, tuple):
            return None
        x, y = self._point(column)
        columns = (x, y, (x, x), (x, y), (y, y))
        return _together(*(part.fold_groups(each, groups) for part, each in zip(self._parts, columns, strict=True)))

    @staticmethod
    def _point(element: Any) -> tuple[Any, Any]:
        if not isinstance(element, tuple) or len(element) != 2:
            raise TypeError(f"expected a point (x, y), got {element!r}")
        return element

    def check(self, element: tuple[Number, Number]) -> None:
        self.fold(element)

    def check_many(self, elements: Any) -> None:
        for element in rows_of(elements):
            self.fold(element)

    @property
    def count(self) -> int:
        """Number of points."""
        return self._parts[0].count

    @property
    def value(self) -> Line | None:
        x, y, xx, xy, _ = self._parts
        if not self._is_defined(x, xx):
            return None

        def slope() -> Fraction:
            return _spread(x, xy, y) / _spread(x, xx, x)

        floats = x.has_floats or y.has_floats
        return Line(_read(floats, slope), _read(floats, lambda: (_finite(y) - slope() * _finite(x)) / self.count))

    @property
    def r_squared(self) -> Fraction | float | None:
        """Share of the variance of y that the line explains; None until both x and y differ."""
        x, y, xx, xy, yy = self._parts
        if not (self._is_defined(x, xx) and self._is_defined(y, yy)):
            return None
        floats = x.has_floats or y.has_floats
        return _read(floats, lambda: _spread(x, xy, y) ** 2 / (_spread(x, xx, x) * _spread(y, yy, y)))

    @staticmethod
    def _is_defined(numbers: Average, squares: SumOfProducts) -> bool:
        """Whether two of the numbers differ; with an infinity among them that is not asked."""
        return numbers.count > 0 and (numbers.exact() is None or _spread(numbers, squares, numbers) != 0)


def _read(floats: bool, exact: Callable[[], Fraction]) -> Fraction | float:
    try:
        number = exact()
    except _Infinite:
        return math.nan
    return nearest(number.numerator, number.denominator) if floats else number


class _Infinite(ArithmeticError):
    """An infinity is among the numbers."""


def _finite(numbers: ExactSums[Any, Any]) -> Fraction:
    total = numbers.exact()
    if total is None:
        raise _Infinite
    return total


def _spread(x: Average, products: SumOfProducts, y: Average) -> Fraction:
    """``count`` squared times the covariance."""
    return x.count * _finite(products) - _finite(x) * _finite(y)


def _together(*folded: list[Any] | None) -> list[Any] | None:
    """Partials of each group from those of its parts; None if a part goes row by row."""
    parts = [each for each in folded if each is not None]
    return list(zip(*parts, strict=True)) if len(parts) == len(folded) else None
