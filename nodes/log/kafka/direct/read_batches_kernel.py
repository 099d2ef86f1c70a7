"""The compiled loops that walk record batches (magic 2) as they lie in a broker's answer.

Two rules for this file: nothing is believed, so that no length leads out of the buffer (but for eight bytes of its
padding); and a batch gives all of its records or none. Format: kafka.apache.org/documentation/#recordbatch.
"""
# Numba compiles this file; a type checker takes its scalars for plain numbers.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from holon.columnar.kernel import compiled
from holon.columnar.vectors import byte_at, load_word, number_at, put_number
from nodes.log.codecs.crc32c import sum_of
from nodes.log.kafka.direct.read_batches_table import (
    AT,
    BESIDE,
    BROKEN,
    COMPRESSED,
    DAMAGED,
    DONE,
    END,
    EPOCH,
    HEAD_BYTES,
    HEADER_END,
    HEADER_START,
    HEADERS,
    HEADERS_START,
    KEY_END,
    KEY_START,
    LEAST_RECORD_BYTES,
    NEXT,
    OFFSET,
    OTHER_MAGIC,
    RECORD_END,
    ROWS,
    SIZE,
    STAMP,
    START,
    STATUS,
)

_LENGTH, _EPOCH, _MAGIC, _CRC, _FLAGS, _LAST, _FIRST_MS, _MAX_MS, _COUNT = 8, 12, 16, 17, 21, 23, 27, 35, 57
_BEFORE_LENGTH = 12  # bytes of a batch that its length does not count
_CODEC, _APPEND_TIME, _CONTROL = 7, 8, 32
_LOW = np.uint64(0xFF)
_MOST_BITS = 70
inlined = numba.njit(forceinline=True, error_model="numpy", boundscheck=False)


@intrinsic
def _swapped(typing_context: Any, word: Any) -> Any:
    """The bytes of a word in the other order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@inlined
def _big(address, count):
    """A signed number of so many bytes, the highest first."""
    return np.int64(_swapped(load_word(address))) >> np.int64(64 - 8 * count)


@inlined
def _varint(at, end):
    """A signed number of changing length, and where it ends; -1 if that is not before ``end``."""
    found, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < _MOST_BITS:
        byte = load_word(at) & _LOW
        found |= (byte & np.uint64(127)) << shift
        at += 1
        if byte < 128:
            return np.int64(found >> np.uint64(1)) ^ -np.int64(found & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inlined
def _batch_end(at, end):
    """Where the batch at ``at`` ends; -1 if it is not here as a whole, -2 if it is none."""
    if at + HEAD_BYTES > end:
        return np.int64(-1)
    length = _big(at + _LENGTH, 4)
    if length < HEAD_BYTES - _BEFORE_LENGTH:
        return np.int64(-2)
    behind = at + _BEFORE_LENGTH + length
    return behind if behind <= end else np.int64(-1)


@compiled
def count_records(at, end):
    """Number of records by the heads of the whole batches between two addresses; 0 for a head that cannot be true."""
    count = np.int64(0)
    while True:
        behind = _batch_end(at, end)
        if behind < 0:
            return count
        declared = _big(at + _COUNT, 4)
        if declared > 0 and declared * LEAST_RECORD_BYTES <= behind - at:
            count += declared
        at = behind


@compiled
def walk(buffer, at, end, offset, table, height, beside, name, tables, found):
    """Fill ``table`` with the records from ``offset`` on of the whole batches between two places of the buffer.

    ``buffer``, ``table`` (columns of ``height``, the result of ``count_records``), ``tables`` (of CRC-32C, 0: it is not
    checked) and ``found`` are addresses; ``beside`` 1: also the columns of keys and headers, 2: all columns.
    ``name``: of the header to find, a word of its five bytes. ``found`` holds the findings in the layout of
    ``read_batches_table``.
    """
    rows, status, epoch, some = np.int64(0), np.int64(DONE), np.int64(-1), np.int64(0)
    at += buffer
    end += buffer
    while True:
        behind = _batch_end(at, end)
        if behind < 0:
            status = np.int64(BROKEN) if behind == -2 else status
            break
        status = _known(at, behind, tables)
        if status != DONE:
            break
        last = _big(at, 8) + _big(at + _LAST, 4)
        if last >= offset:
            if _big(at + _FLAGS, 2) & _CONTROL == 0:
                added, more = np.int64(-1), np.int64(0)
                if rows + _big(at + _COUNT, 4) <= height:
                    added, more = _records(buffer, at, behind, offset, last, table + 8 * rows, height, beside, name)
                if added < 0:
                    status = np.int64(BROKEN)
                    break
                rows += added
                some |= more
            offset = last + 1
        epoch = _big(at + _EPOCH, 4)
        at = behind
    put_number(found, ROWS, rows)
    put_number(found, NEXT, offset)
    put_number(found, STATUS, status)
    put_number(found, EPOCH, epoch)
    put_number(found, BESIDE, some)
    put_number(found, AT, at - buffer)
    return rows


@inlined
def _known(at, behind, tables):
    """Whether the batch can be walked; else why not."""
    if _big(at + _MAGIC, 1) != 2:
        return np.int64(OTHER_MAGIC)
    if tables != 0 and sum_of(at + _FLAGS, behind - at - _FLAGS, tables) != _big(at + _CRC, 4) & 0xFFFFFFFF:
        return np.int64(DAMAGED)
    if _big(at + _FLAGS, 2) & _CODEC != 0:
        return np.int64(COMPRESSED)
    count = _big(at + _COUNT, 4)
    if count < 0 or count * LEAST_RECORD_BYTES > behind - at - HEAD_BYTES or _big(at + _LAST, 4) < 0:
        return np.int64(BROKEN)
    return np.int64(DONE)


@inlined
def _records(buffer, batch, behind, offset, last, table, height, beside, name):
    """How many records of a batch were put into the table (-1: it is no batch), and what some of them have."""
    base, first_ms, max_ms = _big(batch, 8), _big(batch + _FIRST_MS, 8), _big(batch + _MAX_MS, 8)
    by_append = _big(batch + _FLAGS, 2) & _APPEND_TIME != 0
    rows, some, lowest = np.int64(0), np.int64(0), base
    at = batch + HEAD_BYTES
    for _ in range(_big(batch + _COUNT, 4)):
        length, at = _varint(at, behind)
        if at < 0 or length < 0 or length > behind - at:
            return np.int64(-1), some
        end = at + length
        delta_ms, at = _varint(at + 1, end)  # behind a byte of flags that mean nothing yet
        if at < 0:
            return np.int64(-1), some
        delta, at = _varint(at, end)
        if at < 0:
            return np.int64(-1), some
        here = base + delta
        if here < lowest or here > last:
            return np.int64(-1), some
        lowest = here + 1
        key, at = _varint(at, end)
        if at < 0 or key > end - at:
            return np.int64(-1), some
        key_start = at
        at += max(key, 0)
        size, at = _varint(at, end)
        if at < 0 or size > end - at:
            return np.int64(-1), some
        start = at
        at += max(size, 0)
        headers, header_at = _varint(at, end)
        if header_at < 0 or headers < 0:
            return np.int64(-1), some
        at = end
        if here < offset:
            continue
        some |= np.int64(key >= 0) | np.int64(headers > 0) | np.int64(size < 0) << 1
        put_number(table, OFFSET * height + rows, here)
        put_number(table, STAMP * height + rows, max_ms if by_append else first_ms + delta_ms)
        put_number(table, START * height + rows, start - buffer)
        put_number(table, END * height + rows, start - buffer + max(size, 0))
        if beside != 0:
            place = table + 8 * rows
            put_number(place, KEY_START * height, key_start - buffer if key >= 0 else np.int64(-1))
            put_number(place, KEY_END * height, key_start - buffer + key)
            if _put_headers(place, height, buffer, header_at, end, headers, name, beside, size) < 0:
                return np.int64(-1), some
        rows += 1
    return rows, some


@inlined
def _put_headers(place, height, buffer, at, end, count, name, beside, size):
    """The columns of headers, and those that go with a walk for all; -1 if they are no headers."""
    header, behind_header = _header(at, end, count, name)
    if header < 0:
        return np.int64(-1)
    put_number(place, HEADER_START * height, header - buffer)
    put_number(place, HEADER_END * height, behind_header - buffer)
    if beside > 1:
        put_number(place, SIZE * height, max(size, np.int64(-1)))
        put_number(place, HEADERS_START * height, at - buffer)
        put_number(place, RECORD_END * height, end - buffer)
        put_number(place, HEADERS * height, count)
    return np.int64(0)


@inlined
def _header(at, end, count, name):
    """Where the last header of that name begins and ends (nothing at ``at``: there is none); -1 if they are none."""
    found, behind = at, at
    for _ in range(count):
        size, at = _varint(at, end)
        if at < 0 or size < 0 or size > end - at:
            return np.int64(-1), np.int64(-1)
        ours = size == 5 and np.int64(load_word(at) & np.uint64(0xFFFFFFFFFF)) == name
        at += size
        size, at = _varint(at, end)
        if at < 0 or size > end - at:
            return np.int64(-1), np.int64(-1)
        if ours and size >= 0:
            found, behind = at, at + size
        at += max(size, 0)
    return found, behind


@compiled
def find_header(buffer, fields, height, rows, name, size, places):
    """Position of the last header of a name in each record of the table of a walk: starts and ends, or twice -1.

    All are addresses but ``height``, ``rows``, and ``size``, of the name in bytes; ``places`` has two columns of
    ``rows``. A header without a value is none.
    """
    for row in range(rows):
        at = buffer + number_at(fields, HEADERS_START * height + row)
        end = buffer + number_at(fields, RECORD_END * height + row)
        start, behind = np.int64(-1), np.int64(-1)
        for _ in range(number_at(fields, HEADERS * height + row)):
            length, at = _varint(at, end)
            if at < 0 or length < 0 or length > end - at:
                break
            same = np.int64(length == size)
            for k in range(size):
                if same == 0:
                    break
                same = np.int64(byte_at(at + k) == byte_at(name + k))
            at += length
            length, at = _varint(at, end)
            if at < 0 or length > end - at:
                break
            if same != 0:
                start, behind = (at - buffer, at - buffer + length) if length >= 0 else (np.int64(-1), np.int64(-1))
            at += max(length, np.int64(0))
        put_number(places, row, start)
        put_number(places, rows + row, behind)
    return np.int64(rows)
