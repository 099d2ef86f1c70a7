"""Rows of columns as JSON objects, one encoded record a row: the same bytes as msgspec gives, without a call a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.layout import END, INTEGER, TEXT, THOUSANDTHS
from holon.columnar.loops import Loops, installed
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Texts

FEW = 24
"""Rows below which msgspec is as quick."""
_INTEGER_BYTES = 24
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Thousandths:
    """A column of int64 that is written as a text, divided by 1000: 1234 as ``"1.234"``."""

    values: NDArray[np.int64]

    def __getitem__(self, row: int) -> str:
        whole, rest = divmod(abs(int(self.values[row])), 1000)
        return f"{'-' if self.values[row] < 0 else ''}{whole}.{rest:03d}"


Field = NDArray[np.int64] | Texts | Thousandths | Sequence[str]


def encode_rows(fields: Mapping[str, Field], count: int) -> Sequence[bytes]:
    """One JSON object for each of ``count`` rows, with these members in this order.

    By the compiled loops, where the process has them and there are enough rows.
    """
    loops = installed()
    if loops is not None and count >= FEW and fields:
        return _compiled(loops, fields, count)
    columns = [_plain(column, count) for column in fields.values()]
    names = list(fields)
    return [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _plain(column: Field, count: int) -> list[Any]:
    if isinstance(column, np.ndarray):
        return column.tolist()
    if isinstance(column, Thousandths):
        return [column[row] for row in range(count)]
    return list(column)


def _compiled(loops: Loops, fields: Mapping[str, Field], count: int) -> Sequence[bytes]:
    literals, pieces, columns = _pieces(fields)
    spans = [column for column in columns if isinstance(column, Texts)]
    room = count * (len(literals) + _INTEGER_BYTES * (len(columns) - len(spans))) + sum(span.size for span in spans)
    out = np.empty(room + PAD_BYTES, np.uint8)
    ends = np.empty(count + 1, np.int64)
    kept, addresses = [], []
    for column in columns:
        found = [column.buffer, column.starts, column.ends] if isinstance(column, Texts) else [_numbers(column)]
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
    rows = BinaryColumn(out, ends[:-1], ends[1:])
    if not misfits:
        return rows
    values = list(rows)
    for row in np.flatnonzero(odd).tolist():
        values[row] = _encode({name: _value(column, row) for name, column in fields.items()})
    return values


def _value(column: Field, row: int) -> Any:
    return int(column[row]) if isinstance(column, np.ndarray) else column[row]


def _numbers(column: Any) -> NDArray[np.int64]:
    values = column.values if isinstance(column, Thousandths) else column
    return np.ascontiguousarray(values, np.int64)


def _pieces(fields: Mapping[str, Field]) -> tuple[bytes, NDArray[np.int64], list[Field]]:
    """Constant pieces, and for each its start, its length, and the slot that follows."""
    literals, pieces, columns, at, quote = [], [], [], 0, b""
    for number, (name, column) in enumerate(fields.items()):
        slot = THOUSANDTHS if isinstance(column, Thousandths) else INTEGER if isinstance(column, np.ndarray) else TEXT
        literal = quote + (b"," if number else b"{") + _encode(name) + b":"
        quote = b"" if slot == INTEGER else b'"'
        literals.append(literal + quote)
        pieces.append((at, len(literals[-1]), slot))
        at += len(literals[-1])
        columns.append(Texts.of(column) if slot == TEXT else column)  # type: ignore[arg-type]
    literals.append(quote + b"}")
    pieces.append((at, len(literals[-1]), END))
    return b"".join(literals), np.array(pieces, np.int64), columns
