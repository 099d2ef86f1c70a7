"""Columns of int64 as few bytes: equal columns give equal bytes, and every column comes back as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_WIDTHS = (1, 2, 4)
_WHOLE = 8


def narrow(column: Ints) -> list[Any]:
    """``[differences, least, width, bytes]``: unsigned distances from the least, of the numbers or of their steps.

    Steps are stored where they are narrower, from the first number on; ``least`` is that of what is stored. Numbers
    that are too far apart are stored as they are.
    """
    plain = _width(column)
    if plain > 1 and len(column) > 1 and _WIDTHS[-1] >= plain:
        steps = np.diff(column)  # cannot overflow: the numbers are within 32 bits of each other
        if _width(steps) < plain:
            return [int(column[0]), *_packed(steps)]
    return [None, *_packed(column)]


def _width(column: Ints) -> int:
    if not len(column):
        return 1
    spread = int(column.max()) - int(column.min())
    return next((width for width in _WIDTHS if spread < 1 << 8 * width), _WHOLE)


def _packed(column: Ints) -> tuple[int, int, bytes]:
    width = _width(column)
    least = int(column.min()) if len(column) and width < _WHOLE else 0
    return least, width, (column - least).astype(f"<{'i' if width == _WHOLE else 'u'}{width}").tobytes()


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
