"""Variances and linear regressions from exact sums of products, so neither order nor partitions change them.

A difference of rounded sums of squares can lose all of its digits, and the usual way around that (B. P. Welford, 1962)
depends on the order. Exact sums lose none, and the value is rounded once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from wcrdt.lattice import E, V
from wcrdt.lattices.columns import Groups, rows_of
from wcrdt.lattices.exact_sums.float_sums import nearest
from wcrdt.lattices.exact_sums.products import SumOfProducts
from wcrdt.lattices.exact_sums.sums import Average, ExactSums, Number
from wcrdt.lattices.records import Product


class _Moments(Product[E, V]):
    """A product whose parts all get their elements from one."""

    __slots__ = ()

    @abstractmethod
    def _elements(self, element: Any) -> tuple[Any, ...]:
        """The element of each part; or of a column, the column of each part."""

    def fold(self, element: E) -> tuple[Any, ...]:
        return super().fold(self._elements(element))

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        return super().fold_groups(self._elements(column), groups)

    def check(self, element: E) -> None:
        self.fold(element)

    def check_many(self, elements: Any) -> None:
        for element in rows_of(elements):
            self.fold(element)


class Variance(_Moments[Number, Fraction | float | None]):
    """The population variance (SQL: VAR_POP); None while empty. Also ``sample``, ``deviation``, ``mean``, ``count``.

    A Fraction, without rounding; with a float among the elements a float: the one nearest to the exact variance. NaN
    once there was an infinity.
    """

    __slots__ = ()
    tag: ClassVar[str] = "variance"
    _parts: tuple[Average, SumOfProducts]

    def __init__(self) -> None:
        super().__init__((Average(), SumOfProducts()))

    def _elements(self, element: Number) -> tuple[Any, ...]:
        return element, (element, element)

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
        """The unbiased variance of a sample (SQL: VAR_SAMP); None below two elements."""
        return self._over(self.count - 1)

    @property
    def deviation(self) -> float | None:
        """The population's standard deviation (SQL: STDDEV_POP): the square root of the variance as a float."""
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


class LinearRegression(_Moments[tuple[Number, Number], Line | None]):
    """The line of least squares through points ``(x, y)``; None until two values of x differ. ``r_squared``, ``count``.

    Fractions, without rounding; with a float among the coordinates floats: those nearest to the exact ones. NaN once
    there was an infinity.
    """

    __slots__ = ()
    tag: ClassVar[str] = "regression"
    _parts: tuple[Average, Average, SumOfProducts, SumOfProducts, SumOfProducts]

    def __init__(self) -> None:
        super().__init__((Average(), Average(), SumOfProducts(), SumOfProducts(), SumOfProducts()))

    def _elements(self, element: tuple[Number, Number]) -> tuple[Any, ...]:
        if not isinstance(element, tuple) or len(element) != 2:
            raise TypeError(f"expected a point (x, y), got {element!r}")
        x, y = element
        return x, y, (x, x), (x, y), (y, y)

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        return super().fold_groups(column, groups) if isinstance(column, tuple) else None

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
        """Whether two of the numbers differ; with an infinity among them that is not checked."""
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
