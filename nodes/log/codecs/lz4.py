"""LZ4 as a compiled loop: the frames that Kafka's batches carry, of independent blocks.

Format: LZ4 frame 1.6.1 and block description (github.com/lz4/lz4/doc). Blocks have 64 KB, so that positions fit into
two bytes and the match table stays in the processor's first cache; no checksums, as the batch has its own.
"""
# Numba compiles this file; a type checker takes its scalars for plain numbers.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.kernel import compiled
from holon.columnar.vectors import (
    copy_sixteen,
    half_at,
    load_word,
    put_byte,
    put_half,
    put_number,
    put_word,
    trailing_zeros,
)
from nodes.log.codecs.lz4_layout import BLOCK_BYTES, TABLE_BYTES, TABLE_SHIFT

_HEAD = np.uint64(0x824060184D2204)  # magic, version 1 with independent blocks, 64 KB, sum of these
_HEAD_BYTES = 7
_RAW = np.uint64(0x80000000)
_FIVE_BYTES = np.uint64(889_523_592_379)  # a prime, as in the reference implementation
_NARROW = np.uint64(0xFFFFFFFF)
_LEAST = 4
_LAST_LITERALS, _LAST_MATCH = 5, 12  # the last bytes of a block are literals; where the last match may begin
_PATIENCE = 6  # after so many misses (a power of two) steps become longer
inlined = numba.njit(forceinline=True, error_model="numpy", boundscheck=False)


@compiled
def lz4_frame(source, size, out, table):
    """Write a frame of ``size`` bytes to ``out``; its length.

    ``out`` needs room for ``lz4_layout.frame_room``, ``source`` is padded by ``PAD_BYTES``; ``table`` has
    ``TABLE_BYTES``. All but the size are addresses.
    """
    put_word(out, _HEAD)
    at, done = out + _HEAD_BYTES, np.int64(0)
    while done < size:
        length = min(size - done, np.int64(BLOCK_BYTES))
        end = _block(source + done, length, at + 4, table)
        packed = np.uint64(end - at - 4)
        if packed >= np.uint64(length):
            for place in range(0, length, 16):
                copy_sixteen(at + 4 + place, source + done + place)
            end, packed = at + 4 + length, np.uint64(length) | _RAW
        put_half(at, 0, np.int64(packed & np.uint64(0xFFFF)))
        put_half(at, 1, np.int64(packed >> np.uint64(16)))
        at, done = end, done + length
    put_half(at, 0, 0)
    put_half(at, 1, 0)
    return at + 4 - out


@inlined
def _block(source, size, out, table):
    """Returns where it ends."""
    for k in range(TABLE_BYTES // 8):
        put_number(table, k, 0)
    anchor, at, misses = np.int64(0), np.int64(1), np.int64(1 << _PATIENCE)
    while at <= size - _LAST_MATCH:
        word = load_word(source + at)
        place = np.int64(((word << np.uint64(24)) * _FIVE_BYTES) >> np.uint64(TABLE_SHIFT))
        found = half_at(table, place)
        put_half(table, place, at)
        if found >= at or (load_word(source + found) ^ word) & _NARROW != 0:
            at += misses >> _PATIENCE
            misses += 1
            continue
        while at > anchor and found > 0 and _byte(source + at - 1) == _byte(source + found - 1):
            at -= 1
            found -= 1
        length = _LEAST + _same(source + at + _LEAST, source + found + _LEAST, source + size - _LAST_LITERALS)
        out = _literals(out, source + anchor, at - anchor, length - _LEAST)
        put_half(out, 0, at - found)
        out = _rest(out + 2, length - _LEAST - 15)
        at += length
        anchor, misses = at, np.int64(1 << _PATIENCE)
        if at <= size - _LAST_MATCH:
            word = load_word(source + at - 2)
            place = np.int64(((word << np.uint64(24)) * _FIVE_BYTES) >> np.uint64(TABLE_SHIFT))
            put_half(table, place, at - 2)
    return _literals(out, source + anchor, size - anchor, np.int64(0))


@inlined
def _literals(out, source, count, more):
    """A token for these and a match of ``more`` bytes above the least, and the literals."""
    put_byte(out, (min(count, np.int64(15)) << 4) | min(more, np.int64(15)))
    out = _rest(out + 1, count - 15)
    for done in range(0, count, 16):
        copy_sixteen(out + done, source + done)
    return out + count


@inlined
def _rest(out, rest):
    """The part of a length that does not fit into the token; nothing if it does (then it is negative)."""
    if rest < 0:
        return out
    while rest >= 255:
        put_byte(out, 255)
        out += 1
        rest -= 255
    put_byte(out, rest)
    return out + 1


@inlined
def _same(one, other, end):
    """How many bytes are the same, below ``end`` of the first."""
    first = one
    while one + 8 <= end:
        differ = load_word(one) ^ load_word(other)
        if differ != 0:
            return one - first + (trailing_zeros(differ) >> 3)
        one += 8
        other += 8
    while one < end and _byte(one) == _byte(other):
        one += 1
        other += 1
    return one - first


@inlined
def _byte(address):
    return load_word(address) & np.uint64(0xFF)
