"""Layouts of JSON records: what all records of a kind have in common, learned from one of them.

A layout is the record's text cut into constant pieces and values. A record that fits a layout from its first byte to
its last is a valid JSON document whose fields are known. Any other record is for a real parser. Only plain records are
learned: ASCII, no blanks, no escapes, no lists, no floats, no repeated names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Path = tuple[str, ...]

END, INTEGER, TEXT, THOUSANDTHS, RAW, DIGITS = 0, 1, 2, 3, 4, 5
"""The kind of field behind a constant piece. Only the first three are read. Raw bytes are written as they are.

``DIGITS + n`` is an integer that is filled up with zeros to ``n`` characters.
"""
NOWHERE = -1
MAX_BYTES = 1 << 16
MAX_DEPTH = 8
MAX_SLOTS = 200

_STRING = re.compile(rb'"([\x20\x21\x23-\x5b\x5d-\x7f]*)"')
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?![0-9.eE])")
_WORDS = (b"null", b"true", b"false")


class Wanted(NamedTuple):
    """Where a field's value goes: a column of integers, of texts, or of times (and of texts beside, if wanted)."""

    integer: int = NOWHERE
    text: int = NOWHERE
    time: bool = False
    """The field is a text, and ``integer`` gets the time in it."""

    @property
    def slot(self) -> int:
        return TEXT if self.text != NOWHERE or self.time else INTEGER


class LayoutPiece(NamedTuple):
    """A constant piece, and the value that follows."""

    literal: bytes
    slot: int
    integer: int = NOWHERE
    text: int = NOWHERE


@dataclass(frozen=True, slots=True)
class Layout:
    """Pieces in order, the last with ``END``; ``case`` is what the record is about (its discriminator's value)."""

    pieces: tuple[LayoutPiece, ...]
    case: int


class NotPlain(Exception):
    """The record is no example to learn from."""


class _Value(NamedTuple):
    path: Path
    slot: int
    start: int
    end: int


def learn(record: bytes, discriminator: Path | None, wanted: Mapping[int, Mapping[Path, Wanted]]) -> Layout | None:
    """The layout of a record; None if it is not plain, or lacks a field that is wanted or has it with another type.

    ``discriminator`` is the path of an integer that selects one of ``wanted``; without one it is 0.
    """
    if len(record) > MAX_BYTES:
        return None
    values: list[_Value] = []
    try:
        if _object(record, 0, (), values) != len(record) or len(values) > MAX_SLOTS:
            return None
    except NotPlain:
        return None
    case = 0
    if discriminator is not None:
        found = [value for value in values if value.path == discriminator and value.slot == INTEGER]
        text = record[found[0].start : found[0].end] if found else b"x"
        if not text.isdigit() or len(text) > 9:
            return None
        case = int(text)
        values.remove(found[0])
    fields = wanted.get(case)
    if fields is None or not all(any(v.path == p and v.slot == w.slot for v in values) for p, w in fields.items()):
        return None
    return Layout(_pieces(record, values, fields), case)


def _pieces(record: bytes, values: list[_Value], fields: Mapping[Path, Wanted]) -> tuple[LayoutPiece, ...]:
    pieces, at = [], 0
    for value in values:
        target = fields.get(value.path, Wanted())
        pieces.append(LayoutPiece(record[at : value.start], value.slot, target.integer, target.text))
        at = value.end
    return (*pieces, LayoutPiece(record[at:], END))


def _object(record: bytes, at: int, path: Path, values: list[_Value]) -> int:
    """Read an object; returns where it ends."""
    if record[at : at + 1] != b"{" or len(path) >= MAX_DEPTH:
        raise NotPlain
    names: set[str] = set()
    at += 1
    if record[at : at + 1] == b"}":
        return at + 1
    while True:
        name = _STRING.match(record, at)
        if name is None or record[name.end() : name.end() + 1] != b":":
            raise NotPlain
        field = name[1].decode("ascii")
        if field in names:
            raise NotPlain
        names.add(field)
        at = _value(record, name.end() + 1, (*path, field), values)
        mark = record[at : at + 1]
        at += 1
        if mark == b"}":
            return at
        if mark != b",":
            raise NotPlain


def _value(record: bytes, at: int, path: Path, values: list[_Value]) -> int:
    if (text := _STRING.match(record, at)) is not None:
        values.append(_Value(path, TEXT, text.start(1), text.end(1)))
        return text.end()
    if (number := _INTEGER.match(record, at)) is not None:
        values.append(_Value(path, INTEGER, at, number.end()))
        return number.end()
    for word in _WORDS:
        if record.startswith(word, at):
            return at + len(word)
    return _object(record, at, path, values)
