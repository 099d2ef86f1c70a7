"""Parts of the compiled loop: which field a name names, and which Struct of a union a tag names."""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.numbering import same
from holon.columnar.structs.kinds import FIELD, STRUCT
from holon.columnar.structs.texts_kernel import passed_text, text_end, unescaped_text
from holon.columnar.structs.values_kernel import after_blanks, after_colon, value_end
from holon.columnar.vectors import byte_at, number_at, put_number

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)

_FIELD_BYTES, _STRUCT_BYTES = 8 * FIELD, 8 * STRUCT
_NONE = -1


@inlined
def named_field(buffer, at, end, literals, fields, struct, expected, side):
    """The field that a name names (-1: none of them), and where the name ends (-1: it is for msgspec)."""
    if expected != _NONE and _is_literal(buffer, at, end, literals, fields + expected * _FIELD_BYTES):
        return expected, at + number_at(fields + expected * _FIELD_BYTES, 1)
    if byte_at(buffer + at) != 34:
        return np.int64(_NONE), np.int64(-1)
    behind = text_end(buffer, at + 1, end)
    if behind < 0:
        return np.int64(_NONE), behind
    if byte_at(buffer + behind) == 34:
        return _found(buffer + at + 1, behind - at - 1, literals, fields, struct), behind + 1
    behind, length = unescaped_text(buffer, at + 1, end, side)
    if behind < 0:
        return np.int64(_NONE), behind
    return _found(side, length, literals, fields, struct), behind + 1


@inlined
def expect(fields, struct, last, chosen):
    """Remember which field came behind another, or first."""
    if last == _NONE:
        put_number(struct, 4, chosen)
    else:
        put_number(fields + last * _FIELD_BYTES, 7, chosen)


@inlined
def _found(name, length, literals, fields, struct):
    """The field of a Struct that has this name, -1 if none has."""
    first = number_at(struct, 0)
    for number in range(first, first + number_at(struct, 1)):
        field = fields + number * _FIELD_BYTES
        if number_at(field, 1) == length + 2 and same(name, literals + number_at(field, 0) + 1, length):
            return np.int64(number)
    return np.int64(_NONE)


@inlined
def _is_literal(buffer, at, end, literals, field):
    length = number_at(field, 1)
    return at + length <= end and same(buffer + at, literals + number_at(field, 0), length)


@compiled
def tagged_struct(buffer, at, end, literals, fields, structs, count):
    """Which of these Structs, whose last fields are their tags, an object is; -1 if it is for msgspec.

    The values before the tag are passed over. A second tag is found when the members of the object are read.
    """
    at = after_blanks(buffer, at + 1, end)
    while at < end and byte_at(buffer + at) == 34:
        is_tag = _is_literal(buffer, at, end, literals, _tag_of(fields, structs))
        at = after_colon(buffer, passed_text(buffer, at + 1, end), end)
        if at < 0:
            break
        done = value_end(buffer, at, end)
        if done < 0:
            break
        if is_tag:
            for number in range(count):
                tag = _tag_of(fields, structs + number * _STRUCT_BYTES)
                if number_at(tag, 3) == done - at and same(buffer + at, literals + number_at(tag, 9), done - at):
                    return np.int64(number)
            break
        at = after_blanks(buffer, done, end)
        if at >= end or byte_at(buffer + at) != 44:
            break
        at = after_blanks(buffer, at + 1, end)
    return np.int64(_NONE)


@inlined
def _tag_of(fields, struct):
    """The last field of a Struct."""
    return fields + (number_at(struct, 0) + number_at(struct, 1) - 1) * _FIELD_BYTES
