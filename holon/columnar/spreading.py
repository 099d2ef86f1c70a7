"""The compiled loop that puts the columns of a union's alternatives together: one column of all events for each.

Two rules for this file: nothing is written unless every event has a place; values lie anywhere, at any address.
"""
# Numba compiles this file; its scalars are plain numbers to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numpy as np

from holon.columnar.kernel import compiled
from holon.columnar.vectors import byte_at, load_word, number_at, place_at, put_number


@compiled
def spread(kinds, places, count, heights, alternatives, columns, column_count):
    """Write the columns of ``count`` events; returns 0, or 1 where an event has no alternative, or no place in it.

    All arguments but the counts are addresses: ``kinds`` of int8, ``places`` of int32, ``heights`` of int64 for each
    alternative, ``columns`` of int64: for each column where to write it, and for each alternative where its values are
    (int64; 0: it has none, and zeros are written).
    """
    for row in range(count):
        kind = byte_at(kinds + row)
        if kind >= alternatives or place_at(places, row) >= number_at(heights, kind):
            return np.int64(1)
    for column in range(column_count):
        table = columns + 8 * column * (alternatives + 1)
        to = number_at(table, 0)
        for row in range(count):
            source = number_at(table, 1 + byte_at(kinds + row))
            value = np.int64(0)
            if source != 0:
                value = np.int64(load_word(source + 8 * place_at(places, row)))
            put_number(to, row, value)
    return np.int64(0)
