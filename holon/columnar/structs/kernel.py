"""The compiled loop over JSON records of a Struct: members in any order, blanks, unknown fields.

The two rules of ``holon.columnar.kernel`` hold: the loop returns "this is a record, with these values" or "check",
never that a record is bad; and nothing is read outside of a record but the padding behind its buffer. It takes a subset
of the records that msgspec takes.
"""
# Numba compiles this file; its arrays and scalars are plain numpy to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.numbering import same
from holon.columnar.structs.floats_kernel import float_bits
from holon.columnar.structs.kinds import (
    BOOL,
    DECIMAL,
    FIELD,
    FITS,
    FLOAT,
    INTEGER,
    LIST,
    MAX_OPEN,
    MISFIT,
    NULL,
    OBJECT,
    PRESENT,
    STRUCT,
    TAG,
    TEXT,
    TIME,
    UNION,
)
from holon.columnar.structs.names_kernel import named_field, tagged_struct
from holon.columnar.structs.texts_kernel import text_end, unescaped_text
from holon.columnar.structs.values_kernel import (
    FALSE_WORD,
    NULL_WORD,
    TRUE_WORD,
    after_blanks,
    after_colon,
    decimal,
    is_word,
    value_end,
)
from holon.columnar.times_kernel import time_at
from holon.columnar.vectors import byte_at, number_at, put_number

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)

_FIELD_BYTES, _STRUCT_BYTES = 8 * FIELD, 8 * STRUCT
_FRAME_BYTES = 24
_MAX_EXPONENT = 18
_NONE = -1
_DONE = -2


@compiled
def read_structs(
    buffer, starts, ends, count, literals, fields, structs, cells, height, side, behind, powers, scratch, fits
):
    """Read records into columns; ``fits`` gets whether each was read. Returns how many were not.

    All arguments but the counts are addresses: of bytes (``buffer``, ``literals``, ``side``) or of int64. ``fields``
    has ten for each field: start and length of its quoted name in ``literals``, slot, column (of a tag: its length),
    column of its mark (-1: none), Struct, whether it is required, the field that is expected next, whether it may be
    null, start of the tag. A list has the kind of its items in place of a Struct; a union its first Struct, and their
    number in place of a tag. ``structs`` has five for each: first
    field, fields, required ones, whether others are refused, the field that is expected first. ``cells[column, row]``
    gets integers, floats (their bits), bools, starts and ends of texts, lists and spans, and marks. A text with escapes
    is written to ``side``, which is going to lie at ``behind`` of the buffer. ``powers``: as ``float_bits`` takes them.
    ``scratch``: zeros; one number for how far ``side`` is used, three for each open Struct, and one for each field.
    """
    misfits = np.int64(0)
    for row in range(count):
        start, end = number_at(starts, row), number_at(ends, row)
        whole = _record(
            buffer, start, end, literals, fields, structs, cells, height, side, behind, powers, scratch, np.int64(row)
        )
        put_number(fits, row, whole)
        misfits += whole == MISFIT
    return misfits


@inlined
def _record(buffer, at, end, literals, fields, structs, cells, height, side, behind, powers, scratch, row):
    """Read one record. A frame is three numbers of an open Struct: address, required fields so far, field."""
    bottom = scratch + 8
    frame = bottom
    at = after_blanks(buffer, at, end)
    if at >= end or byte_at(buffer + at) != 123:
        return MISFIT
    at = _open(buffer, at, end, frame, structs)
    while at >= 0:  # at a name, or at the end of an object without members
        if byte_at(buffer + at) != 125:
            at, inside = _member(
                buffer, at, end, literals, fields, structs, cells, height, side, behind, powers, scratch, frame, row
            )
            if inside:
                frame += _FRAME_BYTES
                at = _open(buffer, at, end, frame, inside)
                continue
        at, frame = _after(buffer, at, end, fields, cells, height, bottom, frame, row)
    return FITS if at == _DONE else MISFIT


@inlined
def _open(buffer, at, end, frame, struct):
    """Begin a Struct at its brace; returns the place behind it, -1 if that is the end of the record."""
    put_number(frame, 0, struct)
    put_number(frame, 1, 0)
    put_number(frame, 2, _NONE)
    at = after_blanks(buffer, at + 1, end)
    return at if at < end else np.int64(-1)


@inlined
def _after(buffer, at, end, fields, cells, height, bottom, frame, row):
    """Behind a value: the place of the next name (-1: it is for msgspec; ``_DONE``: that was all), and its frame."""
    while at >= 0:
        at = after_blanks(buffer, at, end)
        if at >= end:
            break
        byte = byte_at(buffer + at)
        at += 1
        if byte == 44:
            at = after_blanks(buffer, at, end)
            return (at if at < end and byte_at(buffer + at) == 34 else np.int64(-1)), frame
        if byte != 125 or number_at(frame, 1) != number_at(number_at(frame, 0), 2):
            break
        if frame == bottom:
            return np.int64(_DONE if after_blanks(buffer, at, end) == end else -1), frame
        frame -= _FRAME_BYTES
        put_number(cells, (number_at(fields + number_at(frame, 2) * _FIELD_BYTES, 3) + 1) * height + row, at)
    return np.int64(-1), frame


@inlined
def _member(buffer, at, end, literals, fields, structs, cells, height, side, behind, powers, scratch, frame, row):
    """Read a name and its value; returns where that ends (-1: it is for msgspec), or begins, and the Struct to open."""
    struct, last = number_at(frame, 0), number_at(frame, 2)
    expected = number_at(struct, 4) if last == _NONE else number_at(fields + last * _FIELD_BYTES, 7)
    chosen, at = named_field(buffer, at, end, literals, fields, struct, expected, side + number_at(scratch, 0))
    at = after_colon(buffer, at, end)
    if at < 0:
        return at, np.int64(0)
    if chosen == _NONE:
        return (np.int64(-1) if number_at(struct, 3) else value_end(buffer, at, end)), np.int64(0)
    if chosen != expected:
        _expect(fields, struct, last, chosen)
    seen, field = scratch + 8 + _FRAME_BYTES * MAX_OPEN, fields + chosen * _FIELD_BYTES
    if number_at(seen, chosen) == row + 1:
        return np.int64(-1), np.int64(0)  # of repeated names the last one counts
    put_number(seen, chosen, row + 1)
    put_number(frame, 1, number_at(frame, 1) + number_at(field, 6))
    put_number(frame, 2, chosen)
    slot = number_at(field, 2)
    if slot != OBJECT and slot != UNION:
        return _value(buffer, at, end, literals, field, cells, height, side, behind, powers, scratch, row), np.int64(0)
    mark = number_at(field, 4)
    if mark >= 0:
        null = number_at(field, 8) and is_word(buffer, at, end, NULL_WORD, 4)
        put_number(cells, mark * height + row, NULL if null else PRESENT)
        if null:
            return at + 4, np.int64(0)
    if byte_at(buffer + at) != 123:
        return np.int64(-1), np.int64(0)
    cell, inside = number_at(field, 3) * height + row, structs + number_at(field, 5) * _STRUCT_BYTES
    put_number(cells, cell, at)
    if slot == UNION:
        number = tagged_struct(buffer, at, end, literals, fields, inside, number_at(field, 9))
        if number < 0:
            return np.int64(-1), np.int64(0)
        put_number(cells, cell + 2 * height, number)
        inside += number * _STRUCT_BYTES
    return at, inside


@inlined
def _expect(fields, struct, last, chosen):
    """Remember which field came behind another, or first."""
    if last == _NONE:
        put_number(struct, 4, chosen)
    else:
        put_number(fields + last * _FIELD_BYTES, 7, chosen)


@inlined
def _value(buffer, at, end, literals, field, cells, height, side, behind, powers, scratch, row):
    """Read the value of a field into its columns; where it ends, -1 if it is for msgspec."""
    slot, column, mark = number_at(field, 2), number_at(field, 3), number_at(field, 4)
    cell = column * height + row
    if mark >= 0:
        null = number_at(field, 8) and is_word(buffer, at, end, NULL_WORD, 4)
        put_number(cells, mark * height + row, NULL if null else PRESENT)
        if null:
            return at + 4
    if slot == TEXT:
        return _text(buffer, at, end, cells, cell, height, side, behind, scratch)
    if slot == INTEGER:
        return _integer(buffer, at, end, cells, cell)
    if slot == FLOAT:
        return _float(buffer, at, end, cells, cell, powers)
    if slot == BOOL:
        true = is_word(buffer, at, end, TRUE_WORD, 4)
        put_number(cells, cell, true)
        return at + 4 if true else at + 5 if is_word(buffer, at, end, FALSE_WORD, 5) else np.int64(-1)
    if slot == DECIMAL:
        return _decimal(buffer, at, end, cells, cell, height)
    if slot == TIME:
        return _time(buffer, at, end, cells, cell, height)
    if slot == LIST:
        return _list(buffer, at, end, number_at(field, 5), cells, cell, height, side, powers, scratch)
    if slot == TAG:
        is_tag = at + column <= end and same(buffer + at, literals + number_at(field, 9), column)
        return at + column if is_tag else np.int64(-1)
    done = value_end(buffer, at, end)
    put_number(cells, cell, at)
    put_number(cells, cell + height, done)
    return done


@inlined
def _text(buffer, at, end, cells, cell, height, side, behind, scratch):
    """Its place in the buffer, or where that has escapes, in what is written to ``side``."""
    if byte_at(buffer + at) != 34:
        return np.int64(-1)
    done = text_end(buffer, at + 1, end)
    if done < 0:
        return done
    if byte_at(buffer + done) == 34:
        put_number(cells, cell, at + 1)
        put_number(cells, cell + height, done)
        return done + 1
    used = number_at(scratch, 0)
    done, written = unescaped_text(buffer, at + 1, end, side + used)
    put_number(cells, cell, behind + used)
    put_number(cells, cell + height, behind + used + written)
    put_number(scratch, 0, used + written)
    return done + 1 if done >= 0 else done


@inlined
def _list(buffer, at, end, item, cells, cell, height, side, powers, scratch):
    """Its place in the buffer, if all items are of that kind; objects are made of it when they are read."""
    if byte_at(buffer + at) != 91:
        return np.int64(-1)
    begin = at
    at = after_blanks(buffer, at + 1, end)
    more = at < end and byte_at(buffer + at) != 93
    while more:
        at = _item_end(buffer, at, end, item, side + number_at(scratch, 0), powers)
        if at < 0:
            return at
        at = after_blanks(buffer, at, end)
        if at >= end:
            return np.int64(-1)
        more = byte_at(buffer + at) == 44
        if more:
            at = after_blanks(buffer, at + 1, end)
    if at >= end or byte_at(buffer + at) != 93:
        return np.int64(-1)
    put_number(cells, cell, begin)
    put_number(cells, cell + height, at + 1)
    return at + 1


@inlined
def _item_end(buffer, at, end, item, side, powers):
    """Behind a value of that kind, -1 if it is for msgspec; its value is not read."""
    if at >= end:
        return np.int64(-1)
    if item == TEXT:
        if byte_at(buffer + at) != 34:
            return np.int64(-1)
        done = text_end(buffer, at + 1, end)
        if done >= 0 and byte_at(buffer + done) != 34:
            done, _ = unescaped_text(buffer, at + 1, end, side)
        return done + 1 if done >= 0 else done
    if item == BOOL:
        if is_word(buffer, at, end, TRUE_WORD, 4):
            return at + 4
        return at + 5 if is_word(buffer, at, end, FALSE_WORD, 5) else np.int64(-1)
    done, digits, exponent, negative, whole = decimal(buffer, at, end)
    if done < 0:
        return done
    if item == INTEGER:
        return done if whole and digits <= np.uint64(2**63 - 1) else np.int64(-1)
    _, certain = float_bits(digits, exponent, negative, whole, powers)
    return done if certain else np.int64(-1)


@inlined
def _integer(buffer, at, end, cells, cell):
    done, digits, _, negative, whole = decimal(buffer, at, end)
    if done < 0 or not whole or digits > np.uint64(2**63 - 1):
        return np.int64(-1)
    put_number(cells, cell, -np.int64(digits) if negative else np.int64(digits))
    return done


@inlined
def _decimal(buffer, at, end, cells, cell, height):
    """Mantissa and exponent of a number, or of a text that is one."""
    quoted = byte_at(buffer + at) == 34
    done, digits, exponent, negative, _ = decimal(buffer, at + quoted, end)
    if done < 0 or digits > np.uint64(2**63 - 1) or abs(exponent) > _MAX_EXPONENT or (negative and digits == 0):
        return np.int64(-1)  # a zero with a minus is no int
    put_number(cells, cell, -np.int64(digits) if negative else np.int64(digits))
    put_number(cells, cell + height, exponent)
    if not quoted:
        return done
    return done + 1 if done < end and byte_at(buffer + done) == 34 else np.int64(-1)


@inlined
def _time(buffer, at, end, cells, cell, height):
    """Microseconds, rounded to the nearest, and the zone of a text."""
    done, seconds, micros, rises, zone = time_at(buffer, at + 1, end)
    if byte_at(buffer + at) != 34 or done < 0 or done >= end or byte_at(buffer + done) != 34:
        return np.int64(-1)
    if rises and micros == 999_999:
        return np.int64(-1)  # maybe the year 10,000
    put_number(cells, cell, seconds * 1_000_000 + micros + rises)
    put_number(cells, cell + height, zone)
    return done + 1


@inlined
def _float(buffer, at, end, cells, cell, powers):
    done, digits, exponent, negative, whole = decimal(buffer, at, end)
    if done < 0:
        return done
    bits, certain = float_bits(digits, exponent, negative, whole, powers)
    put_number(cells, cell, bits)
    return done if certain else np.int64(-1)
