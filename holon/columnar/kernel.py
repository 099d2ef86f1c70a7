"""The compiled loops: fit records to layouts, and read their values.

Two rules for this file: a loop returns only "fits, and these are its values" or "check", never that a record is
bad; nothing is read outside of a record but the padding behind its buffer.
"""
# Numba compiles this file; its arrays and scalars are plain numpy to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.layout import DIGITS, END, INTEGER, RAW, TEXT, THOUSANDTHS
from holon.columnar.numbering import same
from holon.columnar.vectors import copy_sixteen, load_word, number_at, plain_bytes, put_byte, put_number

MISFIT = -1
NO_TIME = -(2**63)
"""The value where a text is not a valid time."""

_MAX_DIGITS = 18
_DAY_MS = 86_400_000
_DAYS_TO_1970 = 719_468  # from 0000-03-01, where a year of these sums begins

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)


@compiled
def project(
    buffer, starts, ends, rows, count, literals, pieces, layouts, layout_count, integers, texts, height, which, day
):
    """Fit each of ``rows`` to one of the layouts; ``which`` gets its number, or ``MISFIT``. Returns how many misfit.

    All arguments but the counts are addresses: of bytes (``buffer``, ``literals``) or of int64. ``pieces`` has five for
    each piece: start and length in ``literals``, slot, integer column, text column; ``layouts`` two for each: first
    piece, number of pieces. ``integers[column, row]`` and ``texts[column, 0 or 1, row]`` (start, end) get the values;
    ``height`` is the number of rows that these have. ``day``: room for the last date, of eight bytes and two more, and
    its milliseconds.
    """
    last = np.int64(0)
    misfits = np.int64(0)
    for k in range(count):
        row = number_at(rows, k)
        start, end = number_at(starts, row), number_at(ends, row)
        fits = np.int64(MISFIT)
        for attempt in range(layout_count):
            number = last + attempt
            if number >= layout_count:
                number -= layout_count
            first = pieces + 40 * number_at(layouts, 2 * number)
            behind = first + 40 * number_at(layouts, 2 * number + 1)
            if _fits(buffer, start, end, literals, first, behind, integers, texts, height, row, day):
                fits = last = number
                break
        put_number(which, row, fits)
        misfits += fits == MISFIT
    return misfits


@inlined
def _fits(buffer, at, end, literals, piece, behind, integers, texts, height, row, day):
    """Whether a record is this layout from its first byte to its last."""
    while piece < behind:
        length = number_at(piece, 1)
        if at + length > end or not same(buffer + at, literals + number_at(piece, 0), length):
            return False
        at += length
        slot, column = number_at(piece, 2), number_at(piece, 3)
        if slot == END:
            return at == end
        first = at
        if slot == INTEGER:
            at, value = _integer(buffer, at, end)
            if at < 0:
                return False
            if column >= 0:
                put_number(integers, column * height + row, value)
        else:
            at = _text(buffer, at, end)
            if at < 0:
                return False
            text = number_at(piece, 4)
            if text >= 0:
                put_number(texts, 2 * text * height + row, first)
                put_number(texts, (2 * text + 1) * height + row, at)
            if column >= 0:
                put_number(integers, column * height + row, _time(buffer + first, at - first, day))
        piece += 40
    return False


@inlined
def _integer(buffer, at, end):
    """Read an integer as JSON writes it: where it ends (-1 if it is none, or has too many digits), and its value."""
    negative = at < end and _byte(buffer + at) == 45
    at += negative
    first = at
    value = np.int64(0)
    while at < end and at - first <= _MAX_DIGITS:
        digit = _byte(buffer + at) - 48
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        at += 1
    count = at - first
    if count == 0 or count > _MAX_DIGITS or (count > 1 and _byte(buffer + first) == 48):
        return np.int64(-1), np.int64(0)
    return at, -value if negative else value


@inlined
def _text(buffer, at, end):
    """Pass over a text, up to the quotation mark that ends it; returns its place, -1 if the text is not plain."""
    while at < end:
        count = plain_bytes(buffer + at)
        at += count
        if count < 16:
            break
    if at >= end or _byte(buffer + at) != 34:
        return np.int64(-1)
    return at


@inlined
def _byte(address):
    return np.int64(load_word(address) & np.uint64(0xFF))


@inlined
def _digits(address, count):
    """So many decimal digits as a number, -1 if one is none."""
    value = np.int64(0)
    for k in range(count):
        digit = _byte(address + k) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@compiled
def _time(at, length, day):
    """``yyyy-MM-dd HH:mm:ss[.f{1,3}]`` (UTC, years 1 to 9999, no leap seconds) in epoch ms, or ``NO_TIME``."""
    if length != 23 and length != 19 and length != 21 and length != 22:
        return np.int64(NO_TIME)
    date, rest = np.int64(load_word(at)), np.int64(load_word(at + 8) & np.uint64(0xFFFF))
    if date != number_at(day, 0) or rest != number_at(day, 1):
        begins_ms = date_ms(at)
        if begins_ms == NO_TIME:
            return np.int64(NO_TIME)
        put_number(day, 0, date)
        put_number(day, 1, rest)
        put_number(day, 2, begins_ms)
    hour, minute, second = _digits(at + 11, 2), _digits(at + 14, 2), _digits(at + 17, 2)
    if _byte(at + 10) != 32 or _byte(at + 13) != 58 or _byte(at + 16) != 58:
        return np.int64(NO_TIME)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return np.int64(NO_TIME)
    millis = np.int64(0)
    if length > 19:
        millis = _digits(at + 20, length - 20)
        if millis < 0 or _byte(at + 19) != 46:
            return np.int64(NO_TIME)
        millis *= 1 if length == 23 else (10 if length == 22 else 100)
    return number_at(day, 2) + ((hour * 60 + minute) * 60 + second) * 1000 + millis


@compiled
def date_ms(at):
    """The start of the day ``yyyy-MM-dd`` in epoch ms, or ``NO_TIME`` (proleptic Gregorian calendar)."""
    year, month, day = _digits(at, 4), _digits(at + 5, 2), _digits(at + 8, 2)
    if _byte(at + 4) != 45 or _byte(at + 7) != 45 or year < 1 or month < 1 or month > 12 or day < 1:
        return np.int64(NO_TIME)
    days = 31 - (month == 4 or month == 6 or month == 9 or month == 11)
    if month == 2:
        days = 28 + (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    if day > days:
        return np.int64(NO_TIME)
    # Years that begin in March put the leap day last (Howard Hinnant, "chrono-compatible low-level date algorithms").
    y = year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    of_era_days = of_era * 365 + of_era // 4 - of_era // 100 + of_year
    return (era * 146_097 + of_era_days - _DAYS_TO_1970) * _DAY_MS


@compiled
def compose(literals, pieces, columns, count, out, ends, odd):
    """Write rows of columns, constant pieces between, one after the other; returns how many are ``odd``.

    All arguments but the count are addresses. ``pieces`` has three int64 for each piece: start and length in
    ``literals``, slot; ``columns`` three for each slot: the address of its numbers, or of a buffer, starts and ends.
    ``ends`` gets 0 and the end of each row in ``out``. A row with a text that JSON has to escape is odd, and empty.
    """
    at = np.int64(0)
    put_number(ends, 0, at)
    misfits = np.int64(0)
    for row in range(count):
        end = _compose_row(literals, pieces, columns, row, out, at)
        if end < 0:
            misfits += 1
            put_number(odd, row, 1)
        else:
            at = end
        put_number(ends, row + 1, at)
    return misfits


@inlined
def _compose_row(literals, piece, column, row, out, at):
    while True:
        at = _copy(out, at, literals + number_at(piece, 0), number_at(piece, 1))
        slot = number_at(piece, 2)
        if slot == END:
            return at
        if slot in (TEXT, RAW):
            start, end = number_at(number_at(column, 1), row), number_at(number_at(column, 2), row)
            source = number_at(column, 0) + start
            if slot == TEXT and not _is_plain(source, end - start):
                return np.int64(-1)
            at = _copy(out, at, source, end - start)
        elif slot == INTEGER:
            at = _put_integer(out, at, number_at(number_at(column, 0), row), np.int64(1))
        elif slot == THOUSANDTHS:
            at = _put_thousandths(out, at, number_at(number_at(column, 0), row))
        else:
            value = number_at(number_at(column, 0), row)
            at = _put_integer(out, at, value, slot - DIGITS - (value < 0))
        piece += 24
        column += 24


@inlined
def _copy(out, at, source, length):
    """Copy in pieces of sixteen bytes; what is too much is written over by what follows."""
    for done in range(0, length, 16):
        copy_sixteen(out + at + done, source + done)
    return at + length


@inlined
def _is_plain(source, length):
    done = np.int64(0)
    while done < length:
        count = plain_bytes(source + done)
        if count < 16:
            return done + count >= length
        done += 16
    return True


@inlined
def _put_integer(out, at, value, least):
    """Write a decimal number of at least so many digits."""
    rest = np.uint64(value)
    if value < 0:
        put_byte(out + at, 45)
        at += 1
        rest = np.uint64(0) - rest
    digits = np.int64(1)
    bound = np.uint64(10)
    while digits < 20 and rest >= bound:
        digits += 1
        bound *= np.uint64(10)
        if digits == 20:
            break
    digits = max(digits, least)
    for place in range(digits - 1, -1, -1):
        quotient = rest // np.uint64(10)
        put_byte(out + at + place, np.int64(rest - quotient * np.uint64(10)) + 48)
        rest = quotient
    return at + digits


@inlined
def _put_thousandths(out, at, value):
    if value < 0:
        put_byte(out + at, 45)
        at += 1
        value = -value
    whole = value // 1000
    at = _put_integer(out, at, whole, np.int64(1))
    put_byte(out + at, 46)
    return _put_integer(out, at + 1, value - whole * 1000, np.int64(3))
