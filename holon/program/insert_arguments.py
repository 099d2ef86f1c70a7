"""Arguments of ``insert`` and ``insert_many``: event times and columns, checked and cut."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.errors import JobError
from holon.time.units import MAX_TS_MS
from wcrdt.windows.assigners import END_OF_TIME_MS, Assigner, GlobalWindow, Sliding, Tumbling


class ColumnInserts(NamedTuple):
    """The arguments of ``insert_many`` for a state; ``rows`` None: the elements are those of all rows, in order."""

    state: str
    elements: Any
    ts_ms: NDArray[np.int64]
    rows: NDArray[np.intp] | None


class ColumnOutputs(NamedTuple):
    """The arguments of ``emit_many``: encoded values or objects, each from a row of the batch."""

    output: str
    values: Sequence[Any]
    rows: NDArray[np.intp]
    keys: Sequence[bytes | None] | None


class ColumnEffects(NamedTuple):
    """All that a function of single records does with a batch of them."""

    inserts: Sequence[ColumnInserts]
    outputs: Sequence[ColumnOutputs]


def checked_time(what: str, ts_ms: Any) -> int:
    """The event time as an int; a float or a time beyond all windows would make windows that never complete."""
    try:
        ts = index(ts_ms)
    except TypeError:
        raise TypeError(f"{what}: an event time is an int (ms since 1970 UTC), got {ts_ms!r}") from None
    if not -MAX_TS_MS < ts < MAX_TS_MS:
        raise ValueError(f"{what}: event time {ts} is out of range (ms since 1970 UTC)")
    return ts


def checked_times(what: str, ts_ms: Any) -> NDArray[np.int64]:
    """The same for a column of times."""
    times = np.asarray(ts_ms)
    if len(times) == 0:
        return times.astype(np.int64)
    if times.dtype.kind not in "iu":
        raise TypeError(f"{what}.insert_many: event times are ints (ms since 1970 UTC), got {times.dtype}")
    lowest, highest = int(np.minimum.reduce(times)), int(np.maximum.reduce(times))
    if not -MAX_TS_MS < lowest <= highest < MAX_TS_MS:
        raise ValueError(f"{what}.insert_many: event times {lowest} to {highest} are out of range")
    return times.astype(np.int64, copy=False)


def check_heights(what: str, elements: Any, count: int) -> None:
    """Refuse a column, or a column in a tuple of them, that has not one element for each time."""
    if isinstance(elements, tuple):
        for column in elements:
            check_heights(what, column, count)
    elif len(elements) != count:
        raise ValueError(f"{what}.insert_many: a column of {len(elements)} elements for {count} times")


class RowWatermarks:
    """The watermark before each element's row of the batch. Raises ``JobError`` for another number of rows."""

    __slots__ = ("_all", "_rows", "_what")

    def __init__(
        self, what: str, watermarks: NDArray[np.int64] | None, count: int, rows: NDArray[np.intp] | None
    ) -> None:
        self._what, self._all, self._rows = what, watermarks, None
        if watermarks is None or (rows is None and count == len(watermarks)):
            return
        if rows is None or len(rows) != count:
            raise self._error(count, len(watermarks))
        self._rows = rows

    def _error(self, count: int, height: int) -> JobError:
        return JobError(
            f"{self._what!r}.insert_many: {count} times for a batch of {height} rows; pass rows= with the batch row of "
            f"each element (lateness is decided row by row)"
        )

    def check(self) -> None:
        """Raise ``JobError`` for rows that are not of the batch."""
        rows, height = self._rows, 0 if self._all is None else len(self._all)
        if rows is None or not len(rows):
            return
        if not 0 <= int(np.minimum.reduce(rows)) <= int(np.maximum.reduce(rows)) < height:
            raise self._error(len(rows), height)

    def each(self) -> NDArray[np.int64] | None:
        """None where there is no batch. Raises ``JobError`` for rows that are not of it."""
        self.check()
        return self._all if self._all is None or self._rows is None else self._all[self._rows]

    def where_closed(self, windows: Assigner, times: NDArray[np.int64], lateness_ms: int) -> NDArray[np.int64] | None:
        """As ``each``; None, too, where all windows of all times are open. Raises as that does, always."""
        if self.leave_open(windows, times, lateness_ms, 0):
            self.check()
            return None
        return self.each()

    def leave_open(self, windows: Assigner, times: NDArray[np.int64], lateness_ms: int, which: int) -> bool:
        """Whether the first (``which`` 0) or last (-1) window of each time is open at its row's watermark.

        False where that is seen row by row only.
        """
        if self._all is None or type(windows) not in _ASCENDING:
            return False
        if type(times) is not np.ndarray or times.dtype != np.int64 or not len(times):
            return False
        last_ms = int(self._all[-1])  # watermarks ascend
        least_ms = int(np.minimum.reduce(times))
        if type(windows) is Sliding:  # has many windows of a time
            end_ms = least_ms - least_ms % windows.slide_ms + (windows.size_ms if which else windows.slide_ms)
        else:
            end_ms = windows.windows_for(least_ms)[which].end_ms
        return last_ms < END_OF_TIME_MS and end_ms + lateness_ms > last_ms


_ASCENDING = (Tumbling, Sliding, GlobalWindow)
"""Assigners of which a later time has no earlier windows, and the windows of a time are in order."""


def open_rows(taken: Any, watermarks: NDArray[np.int64] | None, count: int, closes_ms: int) -> NDArray[np.intp]:
    """Of these rows those for which a window that closes at this watermark is open; none without watermarks."""
    rows = np.arange(count)[taken] if isinstance(taken, slice) else taken
    return rows[:0] if watermarks is None else rows[watermarks[rows] < closes_ms]


def count_rows(rows: Any, count: int) -> int:
    """How many of ``count`` rows an index or a slice takes."""
    return len(range(*rows.indices(count))) if isinstance(rows, slice) else len(rows)


def take_rows(elements: Any, rows: Any, count: int) -> Any:
    """Rows of a column or of a tuple of columns."""
    if isinstance(rows, slice) and rows == slice(0, count):
        return elements
    if isinstance(elements, tuple):
        return tuple(take_rows(column, rows, count) for column in elements)
    if isinstance(elements, np.ndarray) or isinstance(rows, slice):
        return elements[rows]
    if hasattr(elements, "take"):
        return elements.take(rows)
    return [elements[row] for row in rows.tolist()]
