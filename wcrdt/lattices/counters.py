"""Counters: ``GCounter`` counts up, ``PNCounter`` counts up and down."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from wcrdt.elements import INTS, exact_number
from wcrdt.lattices.columns import Groups, int_column
from wcrdt.lattices.tallies import Row, Tallies


def whole_number(x: Any) -> int:
    """The int, or ``TypeError`` for anything that is no int (bools too)."""
    number = None if isinstance(x, (float, np.floating)) else exact_number(x)
    if type(number) is not int:
        raise TypeError(f"a counter counts in ints, not {x!r}; use Sum for Decimals and floats")
    return number


class GCounter(Tallies[int, int]):
    """A count that grows: ``insert(n)`` adds n >= 0."""

    __slots__ = ()
    tag: ClassVar[str] = "gcounter"
    compact: ClassVar[bool] = True
    kinds = INTS
    least = 0
    width = 1

    def fold(self, element: int) -> Row:
        number = whole_number(element)
        if number < 0:
            raise ValueError(f"a GCounter cannot go down by {-number}; use PNCounter or Sum")
        return (number,)

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        numbers = int_column(column)
        if numbers is None:
            return None
        if len(numbers) and (lowest := int(np.min(numbers))) < 0:
            raise ValueError(f"a GCounter cannot go down by {-lowest}; use PNCounter or Sum")
        return [(total,) for total in groups.sums(numbers)]

    @property
    def value(self) -> int:
        return sum(row[0] for row in self._rows.values())


class PNCounter(Tallies[int, int]):
    """A count that goes both ways: ``insert(n)`` adds n."""

    __slots__ = ()
    tag: ClassVar[str] = "pncounter"
    compact: ClassVar[bool] = True
    kinds = INTS
    width = 2

    def fold(self, element: int) -> Row:
        number = whole_number(element)
        return (number, 0) if number >= 0 else (0, -number)

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        numbers = int_column(column)
        return None if numbers is None else list(zip(*groups.gains_and_losses(numbers), strict=True))

    @property
    def value(self) -> int:
        gains, losses = self.totals()
        return gains - losses
