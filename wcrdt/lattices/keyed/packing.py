"""Columns of int64 as few bytes: equal columns give equal bytes, and every column comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcrdt.codec import require
from wcrdt.lattice import type_of_wire

Ints = NDArray[np.int64]

_WIDTHS = (1, 2, 4)
_KINDS = {width: np.dtype(f"<u{width}") for width in _WIDTHS}
_WHOLE = 8
_FEW = 1024
"""So many steps show mostly that all of them are not narrower either."""


def narrow(column: Ints, ascends: bool = False) -> list[Any]:
    """``[differences, least, width, bytes]``: unsigned distances from the least, of the numbers or of their steps.

    Steps are stored where they are narrower, from the first number on; ``least`` is that of what is stored. Numbers
    that are too far apart are stored as they are. ``ascends``: the caller knows that the numbers do.
    """
    least, width = _width(int(column[0]), int(column[-1])) if ascends and len(column) else _reach(column)
    if len(column) > 1 and 1 < width < _WHOLE:
        steps = _steps(column[:_FEW])  # cannot overflow: the numbers are within 32 bits of each other
        smaller, steps_width = _reach(steps)
        if steps_width < width and len(column) > _FEW:
            steps = _steps(column)
            smaller, steps_width = _reach(steps)
        if steps_width < width:
            return [int(column[0]), *_packed(steps, smaller, steps_width)]
    return [None, *_packed(column, least, width)]


def _steps(column: Ints) -> Ints:
    return column[1:] - column[:-1]  # as np.diff, which costs more than that where columns are short


def _reach(column: Ints) -> tuple[int, int]:
    """The least number, and how many bytes the distances from it have; where those are too many, 0."""
    if not len(column):
        return 0, 1
    return _width(int(np.minimum.reduce(column)), int(np.maximum.reduce(column)))


def _width(least: int, largest: int) -> tuple[int, int]:
    for width in _WIDTHS:
        if largest - least < 1 << 8 * width:
            return least, width
    return 0, _WHOLE


def _packed(column: Ints, least: int, width: int) -> tuple[int, int, bytes]:
    if width == _WHOLE:
        return least, width, column.astype("<i8").tobytes()
    return least, width, (column - least).astype(_KINDS[width]).tobytes()  # no overflow: the distances fit


def widened(wire: Any) -> Ints:
    """The column. Raises ``ValueError`` or ``TypeError`` for what ``narrow`` cannot have made."""
    first, least, width, data = wire
    if width not in (*_WIDTHS, _WHOLE) or type(least) is not int or not (first is None or type(first) is int):
        raise ValueError(f"not a column: {first!r} {least!r} {width!r}")
    try:
        stored = np.frombuffer(data, f"<{'i' if width == _WHOLE else 'u'}{width}").astype(np.int64) + np.int64(least)
        column = stored if first is None else np.cumsum(np.concatenate([[np.int64(first)], stored]))
    except OverflowError as error:
        raise ValueError(str(error)) from error
    if narrow(column) != [first, least, width, data]:
        raise ValueError("the same column has other bytes")
    return column


def all_written(columns: Mapping[int, Ints], height: int) -> bool:
    """Whether each row has a number other than 0."""
    return rows_written(columns, height) is None


def rows_written(columns: Mapping[int, Ints], height: int) -> NDArray[np.bool_] | None:
    """Which rows have a number other than 0, of one column at least; None: all."""
    there: Any = np.False_
    for column in columns.values():
        mine = column != 0
        if np.count_nonzero(mine) == height:
            return None
        there = there | mine
    return None if np.count_nonzero(there) == height else there


def rows_from_bits(bits: type_of_wire, height: int) -> Ints:
    """The rows whose bit is set, of these many; None: all of them."""
    if bits is None:
        return np.arange(height)
    require(type(bits) is bytes and len(bits) == (height + 7) // 8, "a bit for each key was expected")
    there = np.unpackbits(np.frombuffer(bits, np.uint8))
    rows = np.flatnonzero(there)
    require(0 < len(rows) < height and int(rows[-1]) < height, "bits of no key, or of all of them")
    return rows
