"""The compiled loop that finds the values of stored blocks: ``columns.places_of`` for many of them.

Two rules for this file: the blocks that it is given have the right checksum; what it does not know is the decoder's.
"""
# Numba compiles this file; a type checker takes its scalars for plain numbers.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numpy as np

from holon.columnar.kernel import compiled, inlined
from holon.columnar.vectors import byte_at, number_at, put_number

_MISFIT = -1


@inlined
def _big_endian(at, width):
    value = np.int64(0)
    for k in range(width):
        value = value << 8 | byte_at(at + k)
    return value


@compiled
def unpack(buffer, blocks, count, places, records):
    """Find the values of ``count`` blocks; returns how many there are, or -1 if a block holds more than values.

    All arguments but the counts are addresses. ``blocks``: three int64 for each block (where its body begins and ends
    in the buffer, how many records it has). ``places``: a row of starts and one of ends, of ``records`` int64 each.
    """
    row = np.int64(0)
    for number in range(count):
        at, end = buffer + number_at(blocks, 3 * number), buffer + number_at(blocks, 3 * number + 1)
        wanted = number_at(blocks, 3 * number + 2)
        if end - at < 4 or byte_at(at) != 0x93 or row + wanted > records:
            return _MISFIT
        first = byte_at(at + 1)
        if first & 0xF0 == 0x90:
            found, at = first & 0x0F, at + 2
        elif first == 0xDC:
            found, at = _big_endian(at + 2, 2), at + 4
        elif first == 0xDD:
            found, at = _big_endian(at + 2, 4), at + 6
        else:
            return _MISFIT
        if found != wanted:
            return _MISFIT
        for _ in range(wanted):
            kind = byte_at(at)
            if kind < 0xC4 or kind > 0xC6:
                return _MISFIT
            width = np.int64(1) << (kind - 0xC4)
            start = at + 1 + width
            at = start + _big_endian(at + 1, width)
            if at > end - 2:
                return _MISFIT
            put_number(places, row, start - buffer)
            put_number(places, records + row, at - buffer)
            row += 1
        if at != end - 2 or byte_at(at) != 0xC0 or byte_at(at + 1) != 0xC0:
            return _MISFIT
    return row
