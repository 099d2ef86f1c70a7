"""Places of a column of elements: the windows, or the panes that windows share, into which they go.

A row that is in time for all of its windows goes into their pane alone. Law: a window's panes and what it holds itself
are the elements of those rows for which it was open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.program.insert_arguments import count_rows, open_rows
from wcrdt.windows.assigners import Assigner, Millis, Rows, Window
from wcrdt.windows.panes import Panes


class Places(NamedTuple):
    """``parts``: of a window or pane the rows that go there; ``late``: how often a closed window has refused one."""

    parts: list[tuple[Window, Rows]]
    late: int


class Columns(NamedTuple):
    """Times of elements, the watermarks before them (None: a handler inserts), and until when windows stay open."""

    times: Millis
    watermarks: NDArray[np.int64] | None
    lateness_ms: int


def places_for(
    windows: Assigner, panes: Panes | None, ts_ms: int, is_closed: Callable[[str, Window], bool], name: str
) -> tuple[Window, ...]:
    """The pane of a time for which all windows of the state ``name`` are open; else the windows."""
    if panes is not None:
        (one,) = panes.slices.windows_for(ts_ms)
        if not is_closed(name, one):
            return (panes.pane(one),)
    return windows.windows_for(ts_ms)


def places(windows: Assigner, panes: Panes | None, columns: Columns, is_closed: Callable[[Window], bool]) -> Places:
    """``is_closed``: whether a window takes no row any more of some of these."""
    if panes is None:
        return _places(windows, columns, is_closed)
    found, late = _slices(panes, columns, is_closed)
    if not len(late):
        return Places(found, 0)
    watermarks = columns.watermarks if columns.watermarks is None else columns.watermarks[late]
    parts, refused = _places(windows, Columns(columns.times[late], watermarks, columns.lateness_ms), is_closed)
    return Places([*found, *((window, late[rows]) for window, rows in parts)], refused)


def _places(windows: Assigner, columns: Columns, is_closed: Callable[[Window], bool]) -> Places:
    parts: list[tuple[Window, Rows]] = []
    late = 0
    for window, taken in windows.split(columns.times):
        in_time = _in_time(window, taken, columns) if is_closed(window) else taken
        late += 0 if in_time is taken else _count(taken, columns) - _count(in_time, columns)
        if in_time is taken or len(in_time):  # type: ignore[arg-type]  # what is open in part is an index
            parts.append((window, in_time))
    return Places(parts, late)


def _slices(
    panes: Panes, columns: Columns, is_closed: Callable[[Window], bool]
) -> tuple[list[tuple[Window, Rows]], NDArray[np.intp]]:
    """The rows of each pane; and those that are late for some window: for the first one, which ends with the slice."""
    parts: list[tuple[Window, Rows]] = []
    late = [np.empty(0, np.intp)]
    for one, taken in panes.slices.split(columns.times):
        in_time = taken
        if is_closed(one):
            in_time = _in_time(one, taken, columns)
            late.append(np.setdiff1d(_index(taken, columns), in_time, assume_unique=True))
        if in_time is taken or len(in_time):  # type: ignore[arg-type]
            parts.append((panes.pane(one), in_time))
    return parts, np.concatenate(late)


def _in_time(window: Window, taken: Rows, columns: Columns) -> NDArray[np.intp]:
    return open_rows(taken, columns.watermarks, len(columns.times), window.end_ms + columns.lateness_ms)


def _count(rows: Rows, columns: Columns) -> int:
    return count_rows(rows, len(columns.times))


def _index(rows: Rows, columns: Columns) -> NDArray[np.intp]:
    return np.arange(len(columns.times))[rows] if isinstance(rows, slice) else rows
