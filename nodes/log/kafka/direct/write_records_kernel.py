"""The compiled loop that writes records in the format of Kafka's batches (magic 2), from columns.

Format: kafka.apache.org/documentation/#recordbatch. The batch's head is ``record_batch.py``'s.
"""
# Numba compiles this file; a type checker takes its scalars for plain numbers.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.kernel import compiled
from holon.columnar.vectors import copy_sixteen, number_at, put_byte, put_number

inlined = numba.njit(forceinline=True, error_model="numpy", boundscheck=False)


@compiled
def write_records(columns, first, count, delta, name, name_bytes, out, room, used):
    """Write records ``first`` to ``count``, as far as ``room`` bytes go; returns how many of all are written then.

    ``columns`` is as ``hand_over`` takes it, ``delta`` the number of the first one in its batch, ``name`` the header's
    (bytes). ``used`` gets how many bytes are written. All but counts and sizes are addresses; ``out`` has
    ``PAD_BYTES`` more than ``room``.
    """
    values, value_starts, value_ends = number_at(columns, 0), number_at(columns, 1), number_at(columns, 2)
    headers, header_starts, header_ends = number_at(columns, 3), number_at(columns, 4), number_at(columns, 5)
    keys, key_starts, key_ends = number_at(columns, 6), number_at(columns, 7), number_at(columns, 8)
    at, row = out, first
    while row < count:
        value = number_at(value_starts, row)
        value_bytes = number_at(value_ends, row) - value
        key = number_at(key_starts, row) if keys != 0 else np.int64(-1)
        key_bytes = number_at(key_ends, row) - key if key >= 0 else np.int64(-1)
        header, header_bytes = np.int64(0), np.int64(0)
        if headers != 0:
            header = number_at(header_starts, row)
            header_bytes = number_at(header_ends, row) - header
        # Attributes, time, number of headers: a byte each.
        size = 3 + _width(delta) + _width(key_bytes) + max(key_bytes, np.int64(0)) + _width(value_bytes) + value_bytes
        if header_bytes > 0:
            size += _width(name_bytes) + name_bytes + _width(header_bytes) + header_bytes
        if at - out + _width(size) + size > room:
            break
        at = _varint(at, size)
        put_byte(at, 0)
        put_byte(at + 1, 0)
        at = _varint(at + 2, delta)
        at = _varint(at, key_bytes)
        if key_bytes > 0:
            at = _copy(at, keys + key, key_bytes)
        at = _varint(at, value_bytes)
        at = _copy(at, values + value, value_bytes)
        put_byte(at, 2 if header_bytes > 0 else 0)
        at += 1
        if header_bytes > 0:
            at = _varint(at, name_bytes)
            at = _copy(at, name, name_bytes)
            at = _varint(at, header_bytes)
            at = _copy(at, headers + header, header_bytes)
        delta += 1
        row += 1
    put_number(used, 0, at - out)
    return row


@inlined
def _width(value):
    """Bytes of a number of variable length; -1 and above."""
    rest = value << 1 if value >= 0 else np.int64(1)
    width = np.int64(1)
    while rest >= 128:
        rest >>= 7
        width += 1
    return width


@inlined
def _varint(at, value):
    """Zigzag, seven bits a byte; -1 and above."""
    rest = value << 1 if value >= 0 else np.int64(1)
    while rest >= 128:
        put_byte(at, (rest & 127) | 128)
        at += 1
        rest >>= 7
    put_byte(at, rest)
    return at + 1


@inlined
def _copy(at, source, length):
    """Copy in pieces of sixteen bytes; what is too much is written over by what follows."""
    for done in range(0, length, 16):
        copy_sixteen(at + done, source + done)
    return at + length
