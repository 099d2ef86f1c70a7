"""``Histogram``: counts in fixed buckets, mergeable, with quantiles by an exact rule."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from wcrdt.codec import element_to_wire
from wcrdt.elements import NUMBERS, plain
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, number_column
from wcrdt.lattices.tallies import Row, Tallies

Bound = int | float | Decimal


class Histogram(Tallies[Bound, tuple[int, ...]]):
    """Counts of elements up to each bound: bucket i takes ``bounds[i-1] < x <= bounds[i]``, the last one all above.

    Args: ``bounds`` ascend strictly; ints, floats or Decimals, compared exactly. The value is one count a bucket,
    ``len(bounds) + 1`` in all. Counts are whole numbers, so floats may be inserted without losing determinism.
    """

    __slots__ = ("_bounds", "_shape", "_vector", "width")
    tag: ClassVar[str] = "histogram"
    kinds = NUMBERS

    def __init__(self, bounds: Sequence[Bound]) -> None:
        checked = tuple(map(_number, bounds))
        if not checked or any(a >= b for a, b in pairwise(checked)):
            raise ValueError(f"bounds of a histogram must ascend, and there must be one at least: {bounds!r}")
        super().__init__()
        self._bounds = checked
        self._shape = list(map(element_to_wire, checked))
        self._vector = _vector(checked)
        self.width = len(checked) + 1

    def bottom(self) -> Self:
        fresh = type(self).__new__(type(self))
        Tallies.__init__(fresh)
        fresh._bounds, fresh._shape, fresh._vector, fresh.width = self._bounds, self._shape, self._vector, self.width
        return fresh

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return self._bounds

    def shape(self) -> type_of_wire:
        return self._shape

    def fold(self, element: Bound) -> Row:
        bucket = bisect_left(self._bounds, _number(element))
        return (0,) * bucket + (1,) + (0,) * (self.width - bucket - 1)

    def fold_groups(self, column: Any, groups: Groups) -> list[Row] | None:
        numbers = number_column(column)
        if numbers is None or self._vector is None or numbers.dtype != self._vector.dtype:
            return None
        buckets = np.searchsorted(self._vector, groups.arranged(numbers), side="left")
        members = np.repeat(np.arange(len(groups.starts)), groups.sizes())
        counts = np.bincount(members * self.width + buckets, minlength=len(groups.starts) * self.width)
        return list(map(tuple, counts.reshape(-1, self.width).tolist()))

    @property
    def value(self) -> tuple[int, ...]:
        return self.totals()

    @property
    def count(self) -> int:
        """Number of elements."""
        return sum(self.totals())

    def quantile(self, q: Bound | Fraction) -> Bound | None:
        """Upper bound of the bucket that holds the element of rank ``ceil(q * count)``, counted from 1.

        ``q`` is in [0, 1], and 0 is the first element. None while empty, or where the element is above the last
        bound. A float is taken as it is written: 0.9 is nine tenths.
        """
        counts = self.totals()
        rank, reached = rank_of(q, sum(counts)), 0
        for bound, count in zip(self._bounds, counts, strict=False):
            reached += count
            if reached >= rank:
                return bound
        return None


def rank_of(q: Bound | Fraction, count: int) -> int:
    """The rank ``ceil(q * count)``, at least 1, of a quantile; ``ValueError`` where ``q`` is not in [0, 1]."""
    share = Fraction(repr(q)) if isinstance(q, float) else Fraction(q)
    if not 0 <= share <= 1:
        raise ValueError(f"a quantile is between 0 and 1, not {q}")
    return max(1, -(-share * count // 1))


def _number(x: Any) -> Bound:
    number = plain(x)
    if type(number) not in (int, float, Decimal):
        raise TypeError(f"a histogram takes numbers, not {x!r}")
    return number


def _vector(bounds: tuple[Bound, ...]) -> Any:
    """The bounds as a numpy column for the vectorised way: all int64, or all floats; else None."""
    if all(type(bound) is int and -(2**63) <= bound < 2**63 for bound in bounds):
        return np.array(bounds, np.int64)
    return np.array(bounds, np.float64) if all(type(bound) is float for bound in bounds) else None
