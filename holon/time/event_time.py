"""Event times of a run of records: from an extractor, a column, or the log. Garbage is a reason, never an exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.errors import JobError, described
from holon.formats.batch import Columns, take_columns
from holon.time.units import MAX_TS_MS, NoTime, column_to_ms, to_ms, unit_hint

Times = NDArray[np.int64]
Bad = list[tuple[int, str]]
"""(position, why it has no event time)"""

_NUMBERS: dict[Any, Any] = {int: np.int64, float: np.float64}
_REFUSALS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions that an extractor may raise for a record that has no time."""


def times_of_events(extract: Callable[[Any], Any], events: Sequence[Any], unit: str | None = None) -> tuple[Times, Bad]:
    """Event time of each event, 0 where there is none."""
    common = _usual_times(extract, events, unit)
    if common is not None:
        return common, []
    times: list[int] = []
    bad: Bad = []
    for position, event in enumerate(events):
        try:
            ts = extract(event)
        except _REFUSALS as error:
            bad.append((position, _no_time(error)))
            times.append(0)
            continue
        times.append(_checked(ts, position, bad, unit))
    return np.array(times, dtype=np.int64), bad


def _usual_times(extract: Callable[[Any], Any], events: Sequence[Any], unit: str | None) -> Times | None:
    """The usual case without a check of each: values of one type are times in range. None: one is something else."""
    try:
        values = list(map(extract, events))
        times = _same_times(values, unit)
    except (*_REFUSALS, StopIteration):
        return None
    return times if times is not None and -MAX_TS_MS < int(times.min()) <= int(times.max()) < MAX_TS_MS else None


def _same_times(values: list[Any], unit: str | None) -> Times | None:
    """Times of values of one type, as a column has them; None: of several types, or one is no time."""
    kind = type(values[0]) if values and len(set(map(type, values))) == 1 else None
    if kind in _NUMBERS:
        found = column_to_ms(np.array(values, _NUMBERS[kind]), unit)
        return None if found is None or found[1].any() else found[0]
    if kind is str and unit == "iso":
        known = Texts.of(values).epoch_ms()
        return None if known is None else known[0]  # those that the loop leaves are out of range in it
    if kind is datetime and unit == "datetime" and {value.tzinfo for value in values} == {UTC}:
        # NumPy takes no zones, and what it drops here is the zone that it takes for granted.
        naive = [value.replace(tzinfo=None) for value in values]
        return np.array(naive, "datetime64[us]").astype(np.int64) // 1000
    return None


def times_of_columns(
    timestamp: str | Callable[[Columns], Any], columns: Columns, count: int, unit: str | None = None
) -> tuple[Times, Bad]:
    """Event time of each row, 0 where there is none, from a column's name or a function of the columns.

    Raises ``JobError`` where the job is wrong rather than a row: no such column, or not one time a row.
    """
    if isinstance(timestamp, str):
        if timestamp not in columns:
            there = ", ".join(columns) or "no columns: this format gives events, so timestamp must be a function"
            raise JobError(f"timestamp names the column {timestamp!r}; the format gives {there}")
        return _checked_column(columns[timestamp], unit)
    bad: Bad = []
    times = _by_function(timestamp, columns, np.arange(count), bad, unit)
    return times, bad


def _by_function(
    timestamp: Callable[[Columns], Any], columns: Columns, rows: NDArray[np.intp], bad: Bad, unit: str | None
) -> Times:
    """A function of columns that raises is called with halves, until each bad row is alone."""
    try:
        found = timestamp(columns if len(rows) == _height(columns, rows) else take_columns(columns, rows))
    except _REFUSALS as error:
        if len(rows) == 1:
            bad.append((int(rows[0]), _no_time(error)))
            return np.zeros(1, dtype=np.int64)
        half = len(rows) // 2
        halves = rows[:half], rows[half:]
        return np.concatenate([_by_function(timestamp, columns, part, bad, unit) for part in halves])
    if not hasattr(found, "__len__") or len(found) != len(rows):
        raise JobError(f"timestamp must give one time for each of {len(rows)} rows, got {found!r:.200}")
    times, refused = _checked_column(found, unit)
    bad += [(int(rows[position]), reason) for position, reason in refused]
    return times


def _height(columns: Columns, rows: NDArray[np.intp]) -> int:
    return next((len(column) for column in columns.values()), len(rows))


def _checked_column(column: Any, unit: str | None) -> tuple[Times, Bad]:
    """Times from numbers or numpy datetimes; anything else is read one by one."""
    found = column_to_ms(column, unit) if isinstance(column, np.ndarray) else None
    if found is not None:
        times, none = found
        value = "NaT" if column.dtype.kind == "M" else "NaN or infinite"
        return times, [(position, f"no event time: {value}") for position in np.flatnonzero(none).tolist()]
    bad: Bad = []
    if (known := _known_ms(column, unit)) is not None:
        times, rest = known
        for position in rest.tolist():
            times[position] = _checked(column[position], position, bad, unit)
        return times, bad
    values = column.tolist() if isinstance(column, np.ndarray) else column
    times = [_checked(value, position, bad, unit) for position, value in enumerate(values)]
    return np.array(times, dtype=np.int64), bad


def _known_ms(column: Any, unit: str | None) -> tuple[Times, NDArray[np.intp]] | None:
    """Times that compiled loops read, and the rows that they leave; None: read one by one."""
    if (unit == "iso" and isinstance(column, Texts)) or (unit == "datetime" and isinstance(column, LazyColumn)):
        return column.epoch_ms()
    return None


def _checked(value: Any, position: int, bad: Bad, unit: str | None) -> int:
    try:
        ts = to_ms(value, unit)
    except NoTime as error:
        bad.append((position, f"no event time: {error}"))
        return 0
    if not -MAX_TS_MS < ts < MAX_TS_MS:
        bad.append((position, out_of_range(ts, unit)))
        return 0
    return ts


def out_of_range(ts_ms: int, unit: str | None) -> str:
    """Why a time that far away is refused."""
    return f"event time {ts_ms} is out of range{unit_hint(ts_ms, unit)}"


def _no_time(error: Exception) -> str:
    return f"no event time: {described(error)}"
