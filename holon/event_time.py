"""Event times of a run of records: from an extractor, a column, or the log. Garbage is a reason, never an exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.batch import Columns, take_columns
from holon.errors import JobError, described

MAX_TS_MS = 2**53
"""Event times at or beyond this (year 287396) are refused; also keeps arithmetic far from overflow."""

Times = NDArray[np.int64]
Bad = list[tuple[int, str]]
"""(position, why it has no event time)"""

_REFUSALS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an extractor may raise for a record that has no time."""


def times_of_events(extract: Callable[[Any], Any], events: Sequence[Any]) -> tuple[Times, Bad]:
    """Event time of each event, 0 where there is none."""
    times: list[int] = []
    bad: Bad = []
    for position, event in enumerate(events):
        try:
            ts = extract(event)
        except _REFUSALS as error:
            bad.append((position, _no_time(error)))
            times.append(0)
            continue
        times.append(_checked(ts, position, bad))
    return np.array(times, dtype=np.int64), bad


def times_of_columns(timestamp: str | Callable[[Columns], Any], columns: Columns, count: int) -> tuple[Times, Bad]:
    """Event time of each row, 0 where there is none, from a column's name or a function of the columns.

    Raises ``JobError`` where the job is wrong rather than a row: no such column, or not one time a row.
    """
    if isinstance(timestamp, str):
        if timestamp not in columns:
            there = ", ".join(columns) or "no columns: this format gives events, so timestamp must be a function"
            raise JobError(f"timestamp names the column {timestamp!r}; the format gives {there}")
        return _checked_column(columns[timestamp])
    bad: Bad = []
    times = _by_function(timestamp, columns, np.arange(count), bad)
    return times, bad


def _by_function(timestamp: Callable[[Columns], Any], columns: Columns, rows: NDArray[np.intp], bad: Bad) -> Times:
    """A function of columns that raises is asked for halves, until each bad row stands alone."""
    try:
        found = timestamp(columns if len(rows) == _height(columns, rows) else take_columns(columns, rows))
    except _REFUSALS as error:
        if len(rows) == 1:
            bad.append((int(rows[0]), _no_time(error)))
            return np.zeros(1, dtype=np.int64)
        half = len(rows) // 2
        return np.concatenate([_by_function(timestamp, columns, part, bad) for part in (rows[:half], rows[half:])])
    if not hasattr(found, "__len__") or len(found) != len(rows):
        raise JobError(f"timestamp must give one time for each of {len(rows)} rows, got {found!r:.200}")
    times, refused = _checked_column(found)
    bad += [(int(rows[position]), reason) for position, reason in refused]
    return times


def _height(columns: Columns, rows: NDArray[np.intp]) -> int:
    return next((len(column) for column in columns.values()), len(rows))


def _checked_column(column: Any) -> tuple[Times, Bad]:
    """Times from integers or numpy datetimes; anything else is looked at one by one."""
    kind = column.dtype.kind if isinstance(column, np.ndarray) else "O"
    if kind == "i":
        return column.astype(np.int64, copy=False), []
    if kind == "M":
        nat = np.isnat(column)
        times = np.where(nat, np.int64(0), column.astype("datetime64[ms]").astype(np.int64))
        return times, [(position, "no event time: NaT") for position in np.flatnonzero(nat).tolist()]
    bad: Bad = []
    values = column.tolist() if isinstance(column, np.ndarray) else column
    times = [_checked(value, position, bad) for position, value in enumerate(values)]
    return np.array(times, dtype=np.int64), bad


def _checked(ts: Any, position: int, bad: Bad) -> int:
    if isinstance(ts, np.integer):
        ts = int(ts)
    if not isinstance(ts, int) or isinstance(ts, bool):
        bad.append((position, f"no event time: got {ts!r:.200}, not an int (ms since 1970 UTC)"))
        return 0
    if not -MAX_TS_MS < ts < MAX_TS_MS:
        bad.append((position, f"event time {ts} is out of range"))
        return 0
    return ts


def _no_time(error: Exception) -> str:
    return f"no event time: {described(error)}"
