"""Rows as JSON, from their columns: the bytes that ``encode_json`` gives of each row's object, without objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from holon.columnar.encoding import FEW, Part, compose, quoted, with_rows
from holon.columnar.event_types import fields, has_fields, is_plain_dict, is_plain_tuple, is_struct
from holon.columnar.loops import installed
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.formats import ComposedTexts
from holon.dataflow.rows import VALUE, Rows
from holon.errors import USER_ERRORS
from holon.formats.batch import Column
from holon.formats.finite_numbers import refuse_not_finite
from holon.job import JSON, encode_json, plain_json

_LINE = ord("\n")
_WITHOUT_NUMBERS = (str, int, bool, type(None))
_BOOLS = np.frombuffer(b"truefalse" + bytes(PAD_BYTES), np.uint8)


def json_rows(rows: Rows) -> Sequence[Any]:
    """Values for ``emit_many``: encoded rows where columns suffice, else the rows' objects.

    Rows with a value that JSON cannot hold come as objects, whose encoding raises.
    """
    if rows.columns is None or rows.has_objects:
        return rows.objects()
    try:
        return _composed(rows, escaped=False) or rows.objects()
    except USER_ERRORS:  # by objects it is seen whose failure it is
        return rows.objects()


def _composed(rows: Rows, *, escaped: bool) -> BinaryColumn | None:
    """``escaped``: texts are written by msgspec, and not as they are."""
    if len(rows) < FEW or installed() is None:
        return None
    found = compose(_parts(rows, escaped), len(rows))
    assert found is not None
    encoded, odd = found
    if not len(odd):
        return encoded
    others = rows.take(odd)
    return with_rows(encoded, odd, _composed(others, escaped=True) or list(map(encode_json, others.objects())))


class _NeedsObjects(Exception):
    """Columns do not show what the row's object is encoded to."""


def _parts(rows: Rows, escaped: bool) -> list[Part]:
    assert rows.columns is not None
    if rows.struct is not None:
        return _struct(rows.struct, rows.columns, "", escaped)
    column = rows.columns[VALUE]
    if not isinstance(column, tuple):
        raise _NeedsObjects  # bytes are not encoded; other values are encoded at once
    return _value(column, escaped)


class _Member(NamedTuple):
    name: str
    literal: bytes
    """Its encoded name, with what comes before and behind."""
    kind: Any


@cache
def _members(struct: Any) -> tuple[_Member, ...] | None:
    """Of a type whose object is written with all of its fields; None for others."""
    if is_struct(struct):
        config = struct.__struct_config__
        if config.array_like or config.omit_defaults or config.tag is not None or hasattr(struct, "__post_init__"):
            return None
    elif is_plain_dict(struct):  # keys come as they came in the record
        return None
    is_array = is_plain_tuple(struct)
    found = []
    for number, field in enumerate(fields(struct)):
        name = b"" if is_array else msgspec.json.encode(field.encode_name) + b":"
        found.append(_Member(field.name, (b"," if number else b"[" if is_array else b"{") + name, field.type))
    return tuple(found)


def _struct(struct: Any, columns: Mapping[str, Column], prefix: str, escaped: bool) -> list[Part]:
    members = _members(struct)
    if not members:
        raise _NeedsObjects
    parts: list[Part] = []
    for name, literal, kind in members:
        parts.append(literal)
        column = columns.get(f"{prefix}{name}")
        if column is not None:
            parts += _value(column, escaped)
        else:
            parts += _struct(_inner(kind), columns, f"{prefix}{name}.", escaped)
    return [*parts, b"]" if is_plain_tuple(struct) else b"}"]


def _inner(kind: Any) -> Any:
    if has_fields(kind):
        return kind
    raise _NeedsObjects


def _value(column: Column, escaped: bool) -> list[Part]:
    if isinstance(column, tuple):
        parts: list[Part] = []
        for number, one in enumerate(column):
            parts += [b"," if number else b"[", *_value(one, escaped)]
        return [*parts, b"]"] if column else [b"[]"]
    if isinstance(column, LazyColumn):
        present = column.present()
        column = column if present is None else present
    if isinstance(column, ComposedTexts) and not escaped:
        return column.json_parts()
    if isinstance(column, Texts) and not escaped:
        return quoted(column)
    if isinstance(column, np.ndarray) and column.dtype.kind in "ib":
        return [column if column.dtype.kind == "i" else _bools(column)]
    return [_encoded(as_list(column))]


def _bools(column: Any) -> BinaryColumn:
    starts = np.where(column, 0, len("true"))
    return BinaryColumn(_BOOLS, starts, np.where(column, len("true"), len("truefalse")))


def _encoded(values: list[Any]) -> BinaryColumn:
    """Any values as JSON, each on a line of its own: no line break is left in what is encoded."""
    lines = JSON.encode_lines(values)
    buffer = np.frombuffer(lines + bytes(PAD_BYTES), np.uint8)
    ends = np.flatnonzero(buffer[: len(lines)] == _LINE)
    if len(ends) != len(values):
        raise _NeedsObjects
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    if b"null" in lines:  # msgspec writes it for a number that JSON cannot hold
        for value in values:
            if type(value) not in _WITHOUT_NUMBERS:
                refuse_not_finite(value, plain_json)
    return BinaryColumn(buffer, starts, ends)
