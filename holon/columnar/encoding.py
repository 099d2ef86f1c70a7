"""Rows of columns as JSON objects, one encoded record a row: the same bytes as msgspec gives, without a call a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.layout import DIGITS, END, INTEGER, RAW, TEXT, THOUSANDTHS
from holon.columnar.loops import Loops, installed
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Spans, Texts

FEW = 24
"""Rows below which msgspec is as quick."""
MOST_DIGITS = 20
"""To so many digits integers are filled up with zeros."""
_INTEGER_BYTES = 24
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Thousandths:
    """A column of int64 that is written as a text, divided by 1000: 1234 as ``"1.234"``."""

    values: NDArray[np.int64]

    def __getitem__(self, row: int) -> str:
        whole, rest = divmod(abs(int(self.values[row])), 1000)
        return f"{'-' if self.values[row] < 0 else ''}{whole}.{rest:03d}"


@dataclass(frozen=True, slots=True)
class Digits:
    """A column of int64 that is written with leading zeros to at least so many characters, as ``f"{n:03d}"`` does."""

    values: NDArray[np.int64]
    least: int


Field = NDArray[np.int64] | Texts | Thousandths | Sequence[str]
Part = bytes | NDArray[Any] | Spans | Thousandths | Digits
"""Bytes that stand in every row, or a column. Texts are written if JSON has them as they are, other spans always."""


def encode_rows(fields: Mapping[str, Field], count: int) -> Sequence[bytes]:
    """One JSON object for each of ``count`` rows, with these members in this order.

    By the compiled loops, where the process has them and there are enough rows.
    """
    found = compose(_members(fields), count) if fields else None
    if found is None:
        columns = [_plain(column, count) for column in fields.values()]
        names = list(fields)
        return [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
    rows, odd = found
    return with_rows(rows, odd, [_encode({n: _value(column, row) for n, column in fields.items()})
                                 for row in odd.tolist()])  # fmt: skip


def _plain(column: Field, count: int) -> list[Any]:
    if isinstance(column, np.ndarray):
        return column.tolist()
    if isinstance(column, Thousandths):
        return [column[row] for row in range(count)]
    return list(column)


def _value(column: Field, row: int) -> Any:
    return int(column[row]) if isinstance(column, np.ndarray) else column[row]


def _members(fields: Mapping[str, Field]) -> list[Part]:
    parts: list[Part] = []
    for number, (name, column) in enumerate(fields.items()):
        parts.append((b"," if number else b"{") + _encode(name) + b":")
        parts += quoted(column) if isinstance(column, Thousandths) else json_part(column)
    return [*parts, b"}"]


def json_part(column: NDArray[Any] | Sequence[str]) -> list[Part]:
    """A column of ints or of texts as JSON values."""
    return [column] if isinstance(column, np.ndarray) else quoted(Texts.of(column))


def quoted(part: Part) -> list[Part]:
    """Between quotation marks."""
    return [b'"', part, b'"']


def compose(parts: Sequence[Part], count: int) -> tuple[BinaryColumn, NDArray[np.intp]] | None:
    """``count`` rows of these parts, and the rows that are empty since JSON has to escape a text of them.

    None without compiled loops, and for few rows.
    """
    loops = installed()
    if loops is None or count < FEW:
        return None
    literals, pieces, columns = _pieces(parts)
    return _composed(loops, literals, pieces, columns, count)


def _composed(
    loops: Loops, literals: bytes, pieces: NDArray[np.int64], columns: Sequence[Any], count: int
) -> tuple[BinaryColumn, NDArray[np.intp]]:
    spans = [column for column in columns if isinstance(column, Spans)]
    room = count * (len(literals) + _INTEGER_BYTES * (len(columns) - len(spans))) + sum(span.size for span in spans)
    out = np.empty(room + PAD_BYTES, np.uint8)
    ends = np.empty(count + 1, np.int64)
    kept, addresses = [], []
    for column in columns:
        found = [column.buffer, column.starts, column.ends] if isinstance(column, Spans) else [_numbers(column)]
        found = [np.ascontiguousarray(one) for one in found]
        kept.append(found)  # what has an address here must live
        addresses.append([one.ctypes.data for one in found] + [0] * (3 - len(found)))
    table = np.array(addresses, np.int64)
    text = np.frombuffer(literals + bytes(PAD_BYTES), np.uint8)
    odd = np.zeros(count, np.int64)
    misfits = loops.compose(
        text.ctypes.data, pieces.ctypes.data, table.ctypes.data, count, out.ctypes.data, ends.ctypes.data,
        odd.ctypes.data,
    )  # fmt: skip
    return BinaryColumn(out, ends[:-1], ends[1:]), np.flatnonzero(odd) if misfits else np.empty(0, np.intp)


def with_rows(rows: BinaryColumn, at: NDArray[np.intp], values: Sequence[bytes]) -> BinaryColumn:
    """With other values at these rows."""
    if not len(at):
        return rows
    other = BinaryColumn.of(values)
    starts, ends, offset = rows.starts.copy(), rows.ends.copy(), len(rows.buffer)
    starts[at], ends[at] = other.starts + offset, other.ends + offset
    return BinaryColumn(np.concatenate([rows.buffer, other.buffer]), starts, ends)


def _numbers(column: Any) -> NDArray[np.int64]:
    values = column.values if isinstance(column, Thousandths | Digits) else column
    return np.ascontiguousarray(values, np.int64)


def _pieces(parts: Sequence[Part]) -> tuple[bytes, NDArray[np.int64], list[Any]]:
    """Constant pieces, and for each its start, its length, and the slot that follows."""
    literals, pieces, columns, begin = b"", [], [], 0
    for part in parts:
        if isinstance(part, bytes):
            literals += part
            continue
        pieces.append((begin, len(literals) - begin, _slot(part)))
        begin = len(literals)
        columns.append(part)
    pieces.append((begin, len(literals) - begin, END))
    return literals, np.array(pieces, np.int64), columns


def _slot(part: Part) -> int:
    if isinstance(part, Digits):
        return DIGITS + part.least
    if isinstance(part, Thousandths):
        return THOUSANDTHS
    return TEXT if isinstance(part, Texts) else RAW if isinstance(part, Spans) else INTEGER
