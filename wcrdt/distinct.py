"""The distinct integers of a column: ``numpy.unique`` gives the same, but imports ``numpy.ma`` at its first call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def distinct(column: Ints) -> Ints:
    """Each value once, ascending."""
    arranged = np.sort(column)
    return arranged[_first_of_each(arranged)]


def numbered(column: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and for each row the place of its value among them."""
    order = np.argsort(column)
    arranged = column[order]
    is_first = _first_of_each(arranged)
    places = np.empty(len(column), np.int64)
    places[order] = np.cumsum(is_first) - 1
    return arranged[is_first], places


def _first_of_each(arranged: Ints) -> NDArray[np.bool_]:
    is_first = np.ones(len(arranged), bool)
    np.not_equal(arranged[1:], arranged[:-1], out=is_first[1:])
    return is_first
