"""Open sessions as columns, which take in slices that are columns; and the sessions that close, as columns.

Two rules for this file: ``Unfit`` leaves what is held as it was, and what closes is what objects close too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from holon.dataflow.following.column_functions import as_list
from holon.dataflow.sessions.objects import FIRST, LAST
from holon.dataflow.sliced.columns import number_column, plain_column
from holon.formats.batch import Column
from holon.time.units import MAX_TS_MS
from wcrdt import RecordOf, Session
from wcrdt.elements import order_key
from wcrdt.lattices.columns import Indices, Ints
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.records import RecordLeaf

Sessions = tuple[KeyedColumns, Indices]
"""Some rows."""


class Closed(NamedTuple):
    """Sessions in the order of keys, and of their first rows; ``values`` are those of the parts that were asked for."""

    keys: Column
    first: Ints
    last: Ints
    values: dict[str, Column]


def fold(
    held: KeyedColumns | None, arrived: KeyedColumns | None, end_ms: int, windows: Session
) -> tuple[KeyedColumns | None, list[Sessions]]:
    """The sessions that are open after a slice, and those that it closes. Changes and keeps both. Raises ``Unfit``."""
    closed: list[Sessions] = []
    if arrived is not None:
        if held is not None:
            ended = _ended(held, arrived, windows)
            if len(ended):
                closed.append((held, ended))
                held = _without(held, ended)
        if held is None:
            held = arrived.of_one_actor()
        else:
            held.combine(arrived)
    if held is not None:
        due = np.flatnonzero(np.minimum(_times(held, LAST) + windows.gap_ms, MAX_TS_MS - 1) < end_ms)
        if len(due):
            closed.append((held, due))
            held = _without(held, due)
    return held, closed


def _ended(held: KeyedColumns, arrived: KeyedColumns, windows: Session) -> Indices:
    """The rows whose keys come again, too late for the session. Raises ``Unfit``."""
    rows = held.rows_of(arrived.keys())
    again = np.flatnonzero(rows >= 0)
    rows = rows[again]
    return rows[_times(arrived, FIRST)[again] - _times(held, LAST)[rows] > windows.gap_ms]


def _without(held: KeyedColumns, rows: Indices) -> KeyedColumns | None:
    kept = np.ones(held.height, np.bool_)
    kept[rows] = False
    left = np.flatnonzero(kept)
    return held.taken(left) if len(left) else None


def _times(sessions: KeyedColumns, name: str) -> Ints:
    return _part(sessions, name, np.arange(sessions.height))


def _part(sessions: KeyedColumns, name: str, rows: Indices) -> Any:
    return cast(RecordLeaf, sessions.leaf).part(name).columns(rows)


# --- sessions that have closed ----------------------------------------------------------------------------------------


def closed_columns(parts: Sequence[Sessions], names: Sequence[str]) -> Closed:
    """Of the rows of these columns."""
    if not parts:
        return closed_objects([], names)
    keys = parts[0][0].keys().take(parts[0][1])
    for sessions, rows in parts[1:]:
        keys = keys.joined(sessions.keys().take(rows))
    first, last = (np.concatenate([_part(*_named(part, name)) for part in parts]) for name in (FIRST, LAST))
    order = np.lexsort([first, *keys.sort_columns()[::-1]])
    keys = keys.take(order)
    values = {name: _together([_part(*_named(part, name)) for part in parts], order) for name in names}
    return Closed(keys.parts[0] if keys.form == "i" else keys.tolist(), first[order], last[order], values)  # type: ignore[arg-type]


def _named(part: Sessions, name: str) -> tuple[KeyedColumns, str, Indices]:
    return part[0], name, part[1]


def _together(columns: Sequence[Any], order: Indices) -> Column:
    if all(isinstance(column, np.ndarray) for column in columns) and len({column.dtype for column in columns}) == 1:
        return np.concatenate(columns)[order]
    values = [value for column in columns for value in as_list(column)]
    return plain_column([values[row] for row in order.tolist()])


def closed_objects(closed: Sequence[tuple[Any, RecordOf]], names: Sequence[str]) -> Closed:
    """Of keys with their sessions."""
    ordered = sorted(closed, key=lambda session: (order_key(session[0]), session[1][FIRST].value))
    first, last = (np.array([record[name].value for _, record in ordered], np.int64) for name in (FIRST, LAST))
    values = {name: plain_column([record[name].value for _, record in ordered]) for name in names}
    return Closed(number_column([key for key, _ in ordered]), first, last, values)
