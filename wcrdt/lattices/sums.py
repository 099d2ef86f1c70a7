"""Exact sums and averages over ints and Decimals; floats are refused, because their sums depend on the order."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from wcrdt.elements import exact_add, exact_number
from wcrdt.lattices.columns import Groups, int_column
from wcrdt.lattices.tallies import ExactTallies, Row


class Sum(ExactTallies[int | Decimal, int | Decimal]):
    """A sum of ints and Decimals, without rounding. Whole results are ints: ``1`` and ``Decimal("1.0")`` are equal."""

    __slots__ = ()
    tag: ClassVar[str] = "sum"
    compact: ClassVar[bool] = True
    width = 2

    def fold(self, element: int | Decimal) -> Row:
        number = exact_number(element)
        return (number, 0) if number >= 0 else (0, _negated(number))

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        numbers = int_column(column)
        return None if numbers is None else list(zip(*groups.gains_and_losses(numbers), strict=True))

    @property
    def value(self) -> int | Decimal:
        gains, losses = self.totals()
        return exact_add(gains, _negated(losses))


class Average(ExactTallies[int | Decimal, Fraction | None]):
    """The exact mean as a Fraction, None while empty; ``sum`` and ``count`` are there too."""

    __slots__ = ()
    tag: ClassVar[str] = "average"
    compact: ClassVar[bool] = True
    width = 3

    def fold(self, element: int | Decimal) -> Row:
        number = exact_number(element)
        return (number, 0, 1) if number >= 0 else (0, _negated(number), 1)

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        numbers = int_column(column)
        if numbers is None:
            return None
        return list(zip(*groups.gains_and_losses(numbers), groups.sizes().tolist(), strict=True))

    @staticmethod
    def _possible(row: Row) -> bool:
        return type(row[2]) is int and row[2] > 0

    @property
    def sum(self) -> int | Decimal:
        """Sum of all elements."""
        gains, losses, _ = self.totals()
        return exact_add(gains, _negated(losses))

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.totals()[2]

    @property
    def value(self) -> Fraction | None:
        gains, losses, count = self.totals()
        return (Fraction(gains) - Fraction(losses)) / count if count else None

    def truncated(self) -> int | None:
        """The mean cut towards zero, as SQL divides integers; None while empty."""
        mean = self.value
        return None if mean is None else int(mean)


def _negated(number: int | Decimal) -> int | Decimal:
    """Minus the number, without the rounding of Decimal's own minus sign."""
    return -number if type(number) is int else number.copy_negate()  # type: ignore[union-attr]
