"""Exact sums and averages over ints, Decimals and floats, the same whatever the order and the number of partitions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from operator import gt
from typing import Any, ClassVar

from wcrdt.codec import element_to_wire, require
from wcrdt.elements import NUMBERS, exact_add, exact_number
from wcrdt.lattice import E, V, type_of_wire
from wcrdt.lattices.columns import Groups, int_column
from wcrdt.lattices.exact_sums import float_sums
from wcrdt.lattices.exact_sums.decimals import is_small, numbers_of, scaled_column
from wcrdt.lattices.folding import require_same
from wcrdt.lattices.tallies import ExactTallies, Row

Number = int | float | Decimal
NOTHING = 0, 0
"""Exact gains and losses of a float."""


class ExactSums(ExactTallies[E, V]):
    """Tallies of exact numbers; a row is longer by ``float_sums.WIDTH`` places once a float was added to it.

    ``degree``: 2 where the floats that are added are products of two.
    """

    __slots__ = ()
    combines = True
    degree: ClassVar[int] = 1

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        numbers = int_column(column)
        if numbers is not None:
            return self._exact_groups(numbers, groups)
        floats = float_sums.float_column(column)
        if floats is None:
            return self._decimal_groups(column, groups)
        parts = float_sums.fold_floats(floats, groups)
        if self.width == len(NOTHING):
            return [NOTHING + part for part in parts]
        return [(*NOTHING, size, *part) for size, part in zip(groups.sizes().tolist(), parts, strict=True)]

    def _decimal_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        """The row of each group of Decimals; None: it goes row by row."""
        scaled = scaled_column(column)
        if scaled is None:
            return None
        mantissas, digits = scaled
        gains, losses = (numbers_of(sums, digits) for sums in groups.gains_and_losses(mantissas))
        return self._exact_rows(gains, losses, groups)

    def _exact_groups(self, numbers: Any, groups: Groups) -> list[Row]:
        """The row of each group of ints."""
        return self._exact_rows(*groups.gains_and_losses(numbers), groups)

    def _exact_rows(self, gains: list[Any], losses: list[Any], groups: Groups) -> list[Row]:
        return list(zip(gains, losses, strict=True))

    def check(self, element: E) -> None:
        if type(element) is not Decimal or not is_small(element):
            self.fold(element)

    def absorb(self, partial: Row, actor: int) -> bool:
        if not any(partial):
            return False
        row = self._rows.get(actor)
        if row is not None:
            if len(row) != len(partial):
                row, partial = self._padded(row), self._padded(partial)
            partial = tuple(map(self._add, row, partial))
        self._rows[actor] = partial
        return True

    def merge(self, other: Any) -> bool:
        require_same(self, other)
        rows = self._rows
        uneven = [actor for actor, row in other._rows.items() if len(rows.get(actor) or row) != len(row)]
        if not uneven:
            return super().merge(other)
        padded = other.copy()
        for actor in uneven:
            rows[actor], padded._rows[actor] = self._padded(rows[actor]), self._padded(padded._rows[actor])
        return super().merge(padded)

    def leq(self, other: Any) -> bool:
        for actor, row in self._rows.items():
            theirs = other._rows.get(actor)
            if theirs is None or len(row) > len(theirs):  # with floats, of which the other one has none
                return False
            if len(row) < len(theirs):
                row = self._padded(row)
            if any(map(gt, row, theirs)):
                return False
        return True

    def totals(self) -> Row:
        """The row of sums over all actors; with a part of floats if any of them has one."""
        total: Row = (0,) * self.width
        for row in self._rows.values():
            if len(row) != len(total):
                row, total = self._padded(row), self._padded(total)
            total = tuple(map(self._add, total, row))
        return total

    def _padded(self, row: Row) -> Row:
        return row if len(row) > self.width else row + float_sums.NONE

    def to_wire(self) -> type_of_wire:
        wire: list[type_of_wire] = []
        for actor in sorted(self._rows):
            row = self._rows[actor]
            wire.append([actor, *map(element_to_wire, row[: self.width])])
            if len(row) > self.width:
                wire[-1] += float_sums.part_to_wire(row[self.width :])
        return wire

    def _row_from_wire(self, wire: list[type_of_wire]) -> Row:
        if len(wire) == self.width:
            return super()._row_from_wire(wire)
        require(len(wire) == self.width + float_sums.WIRE_WIDTH, "a row of numbers is too short or too long")
        row = tuple(map(self._number, wire[: self.width])) + float_sums.part_from_wire(wire[self.width :], self.degree)
        require(all(number >= 0 for number in row), "a tally is negative")
        require(self._possible(row), "a tally is one that no elements give")
        return row

    @property
    def has_floats(self) -> bool:
        """Whether a float is among the elements."""
        return any(len(row) > self.width for row in self._rows.values())

    def exact(self) -> Fraction | None:
        """The sum of all elements without rounding; None if an infinity is among them."""
        totals = self.totals()
        exact = Fraction(totals[0]) - Fraction(totals[1])
        if len(totals) == self.width:
            return exact
        gained, lost, raised, lowered, _ = totals[self.width :]
        return None if raised or lowered else exact + Fraction(gained - lost, 1 << self.degree * float_sums.STEP_BITS)

    def _divided(self, count: int) -> Fraction | float:
        """The sum over ``count``; where floats are in it a float, rounded once."""
        totals = self.totals()
        exact, part = Fraction(totals[0]) - Fraction(totals[1]), totals[self.width :]
        return float_sums.rounded(exact, part, count, self.degree) if part else exact / count

    def _total(self) -> Number:
        totals = self.totals()
        if len(totals) > self.width:
            return float(self._divided(1))
        return exact_add(totals[0], negated(totals[1]))


class Sum(ExactSums[Number, Number]):
    """A sum of ints, Decimals and floats, rounded at most once.

    Without floats it is exact; whole results are ints: ``1`` and ``Decimal("1.0")`` are equal. With a float among the
    elements it is a float: the one nearest to the exact sum, ties to even, whatever the order. Infinities give an
    infinity, those of both signs NaN. NaN is refused.
    """

    __slots__ = ()
    tag: ClassVar[str] = "sum"
    compact: ClassVar[bool] = True
    kinds = NUMBERS
    decimals = True
    width = 2

    def fold(self, element: Number) -> Row:
        if type(element) is not int and float_sums.is_float(element):
            return NOTHING + float_sums.float_part(float(element))
        number = exact_number(element)
        return (number, 0) if number >= 0 else (0, negated(number))

    @property
    def value(self) -> Number:
        return self._total()


class Average(ExactSums[Number, Fraction | float | None]):
    """The mean; None while empty; ``sum`` and ``count`` are there too.

    A Fraction, without rounding; with a float among the elements a float: the one nearest to the exact mean.
    """

    __slots__ = ()
    tag: ClassVar[str] = "average"
    compact: ClassVar[bool] = True
    kinds = NUMBERS
    decimals = True
    width = 3

    def fold(self, element: Number) -> Row:
        if type(element) is not int and float_sums.is_float(element):
            return (*NOTHING, 1, *float_sums.float_part(float(element)))
        number = exact_number(element)
        return (number, 0, 1) if number >= 0 else (0, negated(number), 1)

    def _exact_rows(self, gains: list[Any], losses: list[Any], groups: Groups) -> list[Row]:
        return list(zip(gains, losses, groups.sizes().tolist(), strict=True))

    @staticmethod
    def _possible(row: Row) -> bool:
        return type(row[2]) is int and row[2] > 0 and row[2] >= (row[-1] if len(row) > Average.width else 0)

    @property
    def sum(self) -> Number:
        """Sum of all elements, as ``Sum`` gives it."""
        return self._total()

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.totals()[2]

    @property
    def value(self) -> Fraction | float | None:
        count = self.count
        return self._divided(count) if count else None

    def truncated(self) -> int | None:
        """The mean cut towards zero, as SQL divides integers; None while empty. Not for infinities."""
        mean = self.value
        return None if mean is None else int(mean)


def negated(number: int | Decimal) -> int | Decimal:
    """Minus the number, without the rounding of Decimal's own minus sign."""
    return -number if type(number) is int else number.copy_negate()  # type: ignore[union-attr]
