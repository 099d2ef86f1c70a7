"""Parts of the compiled loop: texts with any UTF-8 (RFC 3629) and escapes (RFC 8259)."""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.vectors import byte_at, plain_bytes, put_byte

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)


@compiled
def text_end(buffer, at, end):
    """The first quotation mark or backslash; -1 if something before it is no text."""
    while True:
        while at < end:
            count = plain_bytes(buffer + at)
            at += count
            if count < 16:
                break
        if at >= end:
            return np.int64(-1)
        byte = byte_at(buffer + at)
        if byte == 34 or byte == 92:
            return at
        if byte < 128:
            return np.int64(-1)
        while at < end and byte_at(buffer + at) >= 128:
            length = _character(buffer, at, end)
            if length == 0:
                return np.int64(-1)
            at += length


@inlined
def _character(buffer, at, end):
    """Bytes of a character that is not ASCII; 0 if these bytes are none (RFC 3629, section 4)."""
    first = byte_at(buffer + at)
    length = 2 + (first >= 0xE0) + (first >= 0xF0)
    if first < 0xC2 or first > 0xF4 or at + length > end:
        return np.int64(0)
    second = byte_at(buffer + at + 1)
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if second < low or second > high:
        return np.int64(0)
    for place in range(2, length):
        if byte_at(buffer + at + place) & 0xC0 != 0x80:
            return np.int64(0)
    return np.int64(length)


@compiled
def passed_text(buffer, at, end):
    """The place behind the quotation mark that ends a text, -1 if it is none."""
    while True:
        at = text_end(buffer, at, end)
        if at < 0:
            return at
        if byte_at(buffer + at) == 34:
            return at + 1
        at, _ = _escaped(buffer, at, end)
        if at < 0:
            return at


@compiled
def unescaped_text(buffer, at, end, out):
    """Write a text's characters; where its quotation mark is (-1: it is no text), and how many bytes were written."""
    written = np.int64(0)
    while True:
        behind = text_end(buffer, at, end)
        if behind < 0:
            return behind, written
        for place in range(at, behind):
            put_byte(out + written, byte_at(buffer + place))
            written += 1
        if byte_at(buffer + behind) == 34:
            return behind, written
        at, point = _escaped(buffer, behind, end)
        if at < 0:
            return at, written
        written = _put_point(out, written, point)


@inlined
def _escaped(buffer, at, end):
    """The place behind an escape (-1 if it is none, or half of a pair), and its code point."""
    if at + 2 > end:
        return np.int64(-1), np.int64(0)
    letter = byte_at(buffer + at + 1)
    if letter == 117:
        return _escaped_point(buffer, at + 2, end)
    point = np.int64(-1)
    if letter == 34 or letter == 92 or letter == 47:
        point = letter
    elif letter == 110:
        point = np.int64(10)
    elif letter == 116:
        point = np.int64(9)
    elif letter == 114:
        point = np.int64(13)
    elif letter == 98:
        point = np.int64(8)
    elif letter == 102:
        point = np.int64(12)
    return (at + 2 if point >= 0 else np.int64(-1)), point


@inlined
def _escaped_point(buffer, at, end):
    """As ``_escaped``, of the four digits behind a ``u``, or of the two times four of a pair (RFC 8259, section 7)."""
    point = _hex(buffer, at, end)
    if point < 0 or 0xDC00 <= point < 0xE000:
        return np.int64(-1), np.int64(0)
    if point < 0xD800 or point >= 0xE000:
        return at + 4, point
    if at + 10 > end or byte_at(buffer + at + 4) != 92 or byte_at(buffer + at + 5) != 117:
        return np.int64(-1), np.int64(0)
    low = _hex(buffer, at + 6, end)
    if low < 0xDC00 or low >= 0xE000:
        return np.int64(-1), np.int64(0)
    return at + 10, 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)


@inlined
def _hex(buffer, at, end):
    """Four hexadecimal digits as a number, -1 if one is none."""
    if at + 4 > end:
        return np.int64(-1)
    value = np.int64(0)
    for place in range(4):
        byte = byte_at(buffer + at + place)
        letter = (byte | 32) - 97
        if 48 <= byte <= 57:
            value = value * 16 + byte - 48
        elif 0 <= letter <= 5:
            value = value * 16 + letter + 10
        else:
            return np.int64(-1)
    return value


@inlined
def _put_point(out, at, point):
    """Write a code point as UTF-8."""
    if point < 0x80:
        put_byte(out + at, point)
        return at + 1
    if point < 0x800:
        put_byte(out + at, 0xC0 | (point >> 6))
    else:
        if point < 0x10000:
            put_byte(out + at, 0xE0 | (point >> 12))
        else:
            put_byte(out + at, 0xF0 | (point >> 18))
            at += 1
            put_byte(out + at, 0x80 | ((point >> 12) & 0x3F))
        at += 1
        put_byte(out + at, 0x80 | ((point >> 6) & 0x3F))
    put_byte(out + at + 1, 0x80 | (point & 0x3F))
    return at + 2
