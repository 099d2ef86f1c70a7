"""Readings of records by a format of columns, with the compiled loops of this process and without them."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import JsonColumns
from holon.columnar.loops import install, installed
from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.structs.columns import Lists


def readings(columns: JsonColumns[Any], payloads: Any) -> tuple[list[int], dict[str, Any], list[tuple[int, str]]]:
    found = columns.decode(payloads)
    rows = np.arange(len(payloads)) if found.rows is None else found.rows
    kinds = {name: str(getattr(column, "dtype", isinstance(column, Texts))) for name, column in found.columns.items()}
    values = {name: (kinds[name], list(map(repr, column))) for name, column in found.columns.items()}
    for name, column in found.columns.items():
        if isinstance(column, Lists):
            values[name] = flattened(column)
    return rows.tolist(), values, found.bad


def flattened(column: Lists) -> tuple[Any, ...]:
    """A column of lists, row by row and flat, whole and in parts; inner lists too."""
    parts: list[Any] = [list(map(repr, column))]
    for part in (column, column[::2]):
        items, offsets = part.flat()
        parts += [list(map(repr, items)), str(getattr(items, "dtype", isinstance(items, Texts))), offsets.tolist()]
        parts.append(flattened(items) if isinstance(items, Lists) else ())
    return tuple(parts)


def without_loops(columns: JsonColumns[Any], payloads: Any) -> Any:
    loops = installed()
    install(None)
    try:
        return readings(columns, payloads)
    finally:
        install(loops)


def taken(type: Any, payloads: list[bytes]) -> list[bool]:
    """For each record, whether the compiled loop reads it as a whole."""
    loops = installed()
    assert loops is not None
    reader = JsonColumns(type).reader(loops)
    assert reader is not None
    return reader.read(BinaryColumn.of(payloads))[1].tolist()
