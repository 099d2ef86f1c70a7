"""The compiled loop over JSON records of a Struct: members in any order, blanks, unknown fields.

The two rules of ``holon.columnar.kernel`` hold: the loop returns "this is a record, with these values" or "check",
never that a record is bad; and nothing is read outside of a record but the padding behind its buffer. It takes a subset
of the records that msgspec takes.
"""
# Numba compiles this file; its scalars are plain numpy to a type checker.
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
    FRAME,
    INTEGER,
    LIST,
    MAX_OPEN,
    MISFIT,
    NULL,
    OBJECT,
    PRESENT,
    STRUCT,
    TABLE,
    TAG,
    TEXT,
    TIME,
    UNION,
    VALUES,
)
from holon.columnar.structs.names_kernel import expect, named_field, tagged_struct
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

_FIELD_BYTES, _STRUCT_BYTES, _TABLE_BYTES, _FRAME_BYTES = 8 * FIELD, 8 * STRUCT, 8 * TABLE, 8 * FRAME
_MAX_EXPONENT = 18
_NONE = -1
_DONE = -2
_ARRAY, _VALUES = 1, 2
"""A value opens these if it is an array, of containers or of other values, else the address of a Struct, or 0."""


@compiled
def read_structs(buffer, starts, ends, count, literals, fields, structs, tables, side, behind, powers, scratch, fits):
    """Read records into columns; ``fits`` gets whether each was read. Returns how many were not.

    All arguments but the counts are addresses: of bytes (``buffer``, ``literals``, ``side``) or of int64. ``fields``
    has eleven for each field: start and length of its quoted name in ``literals``, slot, column (of a tag: its length),
    column of its mark (-1: none), Struct, whether it is required, the field that is expected next, whether it may be
    null, start of the tag. A union has its first Struct, and their number in place of a tag; a list the field of its
    items in place of a Struct, and their table in place of a tag. Last is whether the place of a container is noted,
    from which its object is made. The first field is the record itself. ``structs`` has
    five for each: first field, fields, required ones, whether others are refused, the field that is expected first.
    ``tables`` has three for each: its cells, its height, rows used. The rows of the first one are the records, those of
    others items of a list. ``cells[column, row]``
    gets integers, floats (their bits), bools, starts and ends of texts, containers and spans, and marks. A text with
    escapes is written to ``side``, which is going to lie at ``behind`` of the buffer. ``powers``: as ``float_bits``
    takes them. ``scratch``: zeros; one number for how far ``side`` is used, eight for each open container, and one for
    each field.
    """
    misfits = np.int64(0)
    for row in range(count):
        start, end = number_at(starts, row), number_at(ends, row)
        whole = _record(
            buffer, start, end, literals, fields, structs, tables, side, behind, powers, scratch, np.int64(row)
        )
        put_number(fits, row, whole)
        misfits += whole == MISFIT
    return misfits


@inlined
def _record(buffer, at, end, literals, fields, structs, tables, side, behind, powers, scratch, row):
    """Read one record. A frame has eight numbers of an open container, the first one of what is around the record.

    These are its Struct (0: it is an array), required fields so far (of an array: the table), the last field, and where
    its end goes. An array has also cells, height and row of what it is in, and where the place behind its last item
    goes. ``struct``, ``cells``, ``height`` and ``row`` are those of the innermost container.
    """
    frame, cells, height = scratch + 8, number_at(tables, 0), number_at(tables, 1)
    at = after_blanks(buffer, at, end)
    if at >= end:
        return MISFIT
    at, struct = _container(buffer, at, end, literals, fields, structs, fields, cells, height, row)
    if at >= 0:
        at, frame, cells, height = _open(buffer, at, end, tables, fields, struct, frame, cells, height, row)
    while at >= 0:  # at a name, at an item, or at the end of a container that is empty
        inside, field = np.int64(0), fields
        if struct:
            if byte_at(buffer + at) != 125:
                at, inside, field = _member(
                    buffer, at, end, literals, fields, structs, struct, side, behind, powers, scratch, frame,
                    cells, height, row,
                )  # fmt: skip
        elif byte_at(buffer + at) != 93:
            at, inside, field, row = _item(buffer, at, end, literals, fields, structs, frame, cells, height)
        if inside == _VALUES:
            at = _values(
                buffer, at, end, literals, fields, tables, field, side, behind, powers, scratch, cells, height, row
            )
            inside = np.int64(0)
        if inside:
            at, frame, cells, height = _open(buffer, at, end, tables, field, inside, frame, cells, height, row)
            struct = np.int64(0) if inside == _ARRAY else inside
        else:
            at, frame, struct, cells, height, row = _after(
                buffer, at, end, scratch + 8, frame, struct, cells, height, row
            )
    return FITS if at == _DONE else MISFIT


@inlined
def _open(buffer, at, end, tables, field, inside, frame, cells, height, row):
    """Begin a container at its bracket; returns the place behind it (-1: the end of the record), and its frame.

    Then cells and height of what is in it.
    """
    cell = cells + 8 * (number_at(field, 3) * height + row)
    frame += _FRAME_BYTES
    stop = cell + 8 * height
    if inside == _ARRAY:
        table = tables + number_at(field, 9) * _TABLE_BYTES
        put_number(cell, 0, number_at(table, 2))
        put_number(frame, 0, 0)
        put_number(frame, 1, table)
        put_number(frame, 2, number_at(field, 5))
        put_number(frame, 4, cells)
        put_number(frame, 5, height)
        put_number(frame, 6, row)
        put_number(frame, 7, stop)
        cell, stop = cell + 16 * height, stop + 16 * height
        cells, height = number_at(table, 0), number_at(table, 1)
    else:
        put_number(frame, 0, inside)
        put_number(frame, 1, 0)
        put_number(frame, 2, _NONE)
    if number_at(field, 10):
        put_number(cell, 0, at)
        put_number(frame, 3, stop)
    else:
        put_number(frame, 3, frame + 24)  # nobody reads it
    at = after_blanks(buffer, at + 1, end)
    return (at if at < end else np.int64(-1)), frame, cells, height


@inlined
def _after(buffer, at, end, outside, frame, struct, cells, height, row):
    """Behind a value: the place of the next name or item (-1: for msgspec; ``_DONE``: that was all), and its frame.

    Then its Struct, cells, height and row.
    """
    while at >= 0:
        at = after_blanks(buffer, at, end)
        if at >= end:
            break
        byte = byte_at(buffer + at)
        at += 1
        if byte == 44:
            at = after_blanks(buffer, at, end)
            goes_on = at < end and (byte_at(buffer + at) == 34 if struct else byte_at(buffer + at) != 93)
            return (at if goes_on else np.int64(-1)), frame, struct, cells, height, row
        if struct:
            if byte != 125 or number_at(frame, 1) != number_at(struct, 2):
                break
        elif byte == 93:
            put_number(number_at(frame, 7), 0, number_at(number_at(frame, 1), 2))
            cells, height, row = number_at(frame, 4), number_at(frame, 5), number_at(frame, 6)
        else:
            break
        put_number(number_at(frame, 3), 0, at)
        frame -= _FRAME_BYTES
        if frame == outside:
            done = after_blanks(buffer, at, end) == end
            return np.int64(_DONE if done else -1), frame, struct, cells, height, row
        struct = number_at(frame, 0)
    return np.int64(-1), frame, struct, cells, height, row


@inlined
def _member(
    buffer, at, end, literals, fields, structs, struct, side, behind, powers, scratch, frame, cells, height, row
):
    """Read a name and its value; where that ends (-1: it is for msgspec) or begins, what it opens, and its field."""
    last = number_at(frame, 2)
    expected = number_at(struct, 4) if last == _NONE else number_at(fields + last * _FIELD_BYTES, 7)
    chosen, at = named_field(buffer, at, end, literals, fields, struct, expected, side + number_at(scratch, 0))
    at = after_colon(buffer, at, end)
    if at < 0:
        return at, np.int64(0), fields
    if chosen == _NONE:
        return (np.int64(-1) if number_at(struct, 3) else value_end(buffer, at, end)), np.int64(0), fields
    if chosen != expected:
        expect(fields, struct, last, chosen)
    seen, field = scratch + 8 + _FRAME_BYTES * MAX_OPEN, fields + chosen * _FIELD_BYTES
    if number_at(seen, chosen) == row + 1:
        return np.int64(-1), np.int64(0), field  # of repeated names the last one counts
    put_number(seen, chosen, row + 1)
    put_number(frame, 1, number_at(frame, 1) + number_at(field, 6))
    put_number(frame, 2, chosen)
    slot = number_at(field, 2)
    if slot in (OBJECT, UNION, LIST, VALUES):
        at, inside = _container(buffer, at, end, literals, fields, structs, field, cells, height, row)
        return at, inside, field
    at = _value(buffer, at, end, literals, field, slot, side, behind, powers, scratch, cells, height, row)
    return at, np.int64(0), field


@inlined
def _item(buffer, at, end, literals, fields, structs, frame, cells, height):
    """Begin an item of an array of containers.

    Returns where it begins, or if it is null, ends (-1: it is for msgspec), what it opens, its field, and its row.
    """
    field, table = fields + number_at(frame, 2) * _FIELD_BYTES, number_at(frame, 1)
    row = number_at(table, 2)
    put_number(table, 2, row + 1)
    if row >= height:
        return np.int64(-1), np.int64(0), field, row  # no room: the reader makes more
    at, inside = _container(buffer, at, end, literals, fields, structs, field, cells, height, row)
    return at, inside, field, row


@inlined
def _values(buffer, at, end, literals, fields, tables, field, side, behind, powers, scratch, cells, height, row):
    """Read an array of values that are no containers, from its bracket; where it ends, -1 if it is for msgspec."""
    cell = cells + 8 * (number_at(field, 3) * height + row)
    item, table = fields + number_at(field, 5) * _FIELD_BYTES, tables + number_at(field, 9) * _TABLE_BYTES
    slot, inner, room, used = number_at(item, 2), number_at(table, 0), number_at(table, 1), number_at(table, 2)
    put_number(cell, 0, used)
    at = after_blanks(buffer, at + 1, end)
    if at < end and byte_at(buffer + at) == 93:
        put_number(cell, height, used)
        return at + 1
    while at < end:
        if used >= room:
            put_number(table, 2, used + 1)  # no room: the reader makes more
            break
        at = _value(buffer, at, end, literals, item, slot, side, behind, powers, scratch, inner, room, used)
        used += 1
        if at < 0:
            break
        at = after_blanks(buffer, at, end)
        if at >= end:
            break
        byte = byte_at(buffer + at)
        at += 1
        if byte == 93:
            put_number(table, 2, used)
            put_number(cell, height, used)
            return at
        if byte != 44:
            break
        at = after_blanks(buffer, at, end)
    return np.int64(-1)


@inlined
def _container(buffer, at, end, literals, fields, structs, field, cells, height, row):
    """Where an object or an array begins (-1: it is for msgspec), and what it opens; or where a null ends."""
    slot, mark = number_at(field, 2), number_at(field, 4)
    if mark >= 0:
        null = number_at(field, 8) and is_word(buffer, at, end, NULL_WORD, 4)
        put_number(cells, mark * height + row, NULL if null else PRESENT)
        if null:
            return at + 4, np.int64(0)
    if slot in (LIST, VALUES):
        opens = byte_at(buffer + at) == 91
        return (at if opens else np.int64(-1)), np.int64(0 if not opens else _ARRAY if slot == LIST else _VALUES)
    if byte_at(buffer + at) != 123:
        return np.int64(-1), np.int64(0)
    inside = structs + number_at(field, 5) * _STRUCT_BYTES
    if slot == UNION:
        number = tagged_struct(buffer, at, end, literals, fields, inside, number_at(field, 9))
        if number < 0:
            return np.int64(-1), np.int64(0)
        put_number(cells, (number_at(field, 3) + 2) * height + row, number)
        inside += number * _STRUCT_BYTES
    return at, inside


@inlined
def _value(buffer, at, end, literals, field, slot, side, behind, powers, scratch, cells, height, row):
    """Read the value of a field into its columns; where it ends, -1 if it is for msgspec."""
    column, mark = number_at(field, 3), number_at(field, 4)
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
