"""Parts of the compiled loop: blanks, numbers, and values that are only passed over."""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.structs.texts_kernel import passed_text
from holon.columnar.vectors import byte_at, load_word, trailing_zeros

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)

NULL_WORD, TRUE_WORD, FALSE_WORD = (int.from_bytes(word, "little") for word in (b"null", b"true", b"false"))

_ZEROS, _BEYOND_NINE, _HIGH_BITS = (int.from_bytes([byte] * 8) for byte in (0x30, 0x76, 0x80))
_EVEN_PAIRS = 0x000000FF_000000FF
_FIRST_PAIRS = (1_000_000 << 32) + 100
_LAST_PAIRS = (10_000 << 32) + 1
_MAX_DIGITS = 19
_MAX_EXPONENT = 10_000
_MAX_NESTED = 60


@inlined
def after_blanks(buffer, at, end):
    """The first byte that is no blank, or ``end``."""
    while at < end:
        byte = byte_at(buffer + at)
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            break
        at += 1
    return at


@inlined
def is_word(buffer, at, end, word, length):
    """Whether these bytes, at most seven, are here."""
    found = load_word(buffer + at) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
    return at + length <= end and found == np.uint64(word)


@inlined
def decimal(buffer, at, end):
    """A number of at most 19 digits that count, as ``digits * 10**exponent``.

    Returns where it ends (-1: it is for msgspec), digits, exponent, whether it has a minus, whether it is an integer.
    """
    negative = byte_at(buffer + at) == 45
    first = at + negative
    at, digits, kept = _digits(buffer, first, end, np.uint64(0), np.int64(0))
    good = at > first and (at == first + 1 or byte_at(buffer + first) != 48)
    whole, exponent = True, np.int64(0)
    if at < end and byte_at(buffer + at) == 46:
        point = at + 1
        at, digits, kept = _digits(buffer, point, end, digits, kept)
        whole, exponent, good = False, point - at, good and at > point
    if at < end and (byte_at(buffer + at) | 32) == 101:
        at, power = _power(buffer, at + 1, end)
        whole, exponent = False, exponent + power
    return (at if good and kept <= _MAX_DIGITS else np.int64(-1)), digits, exponent, negative, whole


@inlined
def _digits(buffer, at, end, digits, kept):
    """Add decimal digits to others; returns where they end, all of them, and how many of these count."""
    eight = load_word(buffer + at) ^ np.uint64(_ZEROS)
    if at + 8 <= end and not ((eight + np.uint64(_BEYOND_NINE)) | eight) & np.uint64(_HIGH_BITS):
        digits = digits * np.uint64(100_000_000) + _number_of(eight)
        if kept > 0:
            kept += 8
        elif eight:
            kept = np.int64(8) - (trailing_zeros(eight) >> 3)
        at += 8
    while at < end:
        digit = byte_at(buffer + at) - 48
        if digit < 0 or digit > 9:
            break
        digits = digits * np.uint64(10) + np.uint64(digit)
        kept += kept > 0 or digit > 0
        at += 1
    return at, digits, kept


@inlined
def _number_of(eight):
    """The number of eight digits, one a byte, of which the lowest is the first: pairs, fours, and all are added."""
    pairs = eight * np.uint64(10) + (eight >> np.uint64(8))
    even = np.uint64(_EVEN_PAIRS)
    first, second = (pairs & even) * np.uint64(_FIRST_PAIRS), ((pairs >> np.uint64(16)) & even) * np.uint64(_LAST_PAIRS)
    return (first + second) >> np.uint64(32)


@inlined
def _power(buffer, at, end):
    """Where an exponent ends (-1 if it is none), and its value, cut off where no float is so large."""
    lower = at < end and byte_at(buffer + at) == 45
    at += at < end and (lower or byte_at(buffer + at) == 43)
    first, power = at, np.int64(0)
    while at < end and 48 <= byte_at(buffer + at) <= 57:
        power = min(power * 10 + byte_at(buffer + at) - 48, _MAX_EXPONENT)
        at += 1
    return (at if at > first else np.int64(-1)), (-power if lower else power)


@inlined
def _passed_number(buffer, at, end):
    """Where a number of any length ends, -1 if it is none."""
    at += byte_at(buffer + at) == 45
    first = at
    at = _passed_digits(buffer, at, end)
    if at == first or (at - first > 1 and byte_at(buffer + first) == 48):
        return np.int64(-1)
    if at < end and byte_at(buffer + at) == 46:
        first = at + 1
        at = _passed_digits(buffer, first, end)
        if at == first:
            return np.int64(-1)
    if at < end and (byte_at(buffer + at) | 32) == 101:
        first = at + 1
        first += first < end and (byte_at(buffer + first) == 45 or byte_at(buffer + first) == 43)
        at = _passed_digits(buffer, first, end)
        if at == first:
            return np.int64(-1)
    return at


@inlined
def _passed_digits(buffer, at, end):
    while at < end and 48 <= byte_at(buffer + at) <= 57:
        at += 1
    return at


@compiled
def value_end(buffer, at, end):
    """Where the value that begins here ends, -1 if it is none, or lies too deep."""
    depth, objects = np.int64(0), np.uint64(0)  # of the open containers: whether they are objects, the last one lowest
    while 0 <= at < end:
        byte = byte_at(buffer + at)
        if byte == 123 or byte == 91:
            depth += 1
            objects = (objects << np.uint64(1)) | np.uint64(byte == 123)
            at = after_blanks(buffer, at + 1, end)
            if depth > _MAX_NESTED or at >= end:
                break
            if byte_at(buffer + at) != byte + 2:
                at = _passed_name(buffer, at, end) if byte == 123 else at
                continue
        else:
            at = _passed_scalar(buffer, at, end, byte)
        at, depth, objects = _passed_ends(buffer, at, end, depth, objects)
        if depth == 0:
            return at
    return np.int64(-1)


@inlined
def _passed_scalar(buffer, at, end, byte):
    """Where a value without others in it ends, -1 if it is none."""
    if byte == 34:
        return passed_text(buffer, at + 1, end)
    if byte == 45 or 48 <= byte <= 57:
        return _passed_number(buffer, at, end)
    if is_word(buffer, at, end, NULL_WORD, 4) or is_word(buffer, at, end, TRUE_WORD, 4):
        return at + 4
    return at + 5 if is_word(buffer, at, end, FALSE_WORD, 5) else np.int64(-1)


@inlined
def _passed_ends(buffer, at, end, depth, objects):
    """Behind a value, pass the ends of containers and a comma; where the next value begins, or all ends at depth 0."""
    while depth > 0 and at >= 0:
        at = after_blanks(buffer, at, end)
        if at >= end:
            return np.int64(-1), depth, objects
        byte = byte_at(buffer + at)
        inside = (objects & np.uint64(1)) != 0
        at += 1
        if byte == 44:
            at = after_blanks(buffer, at, end)
            return (_passed_name(buffer, at, end) if inside else at), depth, objects
        if byte != (125 if inside else 93):
            return np.int64(-1), depth, objects
        depth -= 1
        objects >>= np.uint64(1)
    return at, depth, objects


@inlined
def _passed_name(buffer, at, end):
    """The place of the value behind a name and its colon, -1 if there is none."""
    if at >= end or byte_at(buffer + at) != 34:
        return np.int64(-1)
    return after_colon(buffer, passed_text(buffer, at + 1, end), end)


@inlined
def after_colon(buffer, at, end):
    """The place of the value behind the name that ends here (-1: none does), -1 if there is none."""
    if at < 0:
        return at
    at = after_blanks(buffer, at, end)
    if at >= end or byte_at(buffer + at) != 58:
        return np.int64(-1)
    at = after_blanks(buffer, at + 1, end)
    return at if at < end else np.int64(-1)
