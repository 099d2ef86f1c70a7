"""Slices of windows that do not overlap: at the end of each there may be early results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.data_driven.slices import DrivenSlices
from holon.dataflow.errors import FlowError, caller
from holon.time.units import MAX_TS_MS
from wcrdt.windows.assigners import END_OF_TIME_MS, Assigner, GlobalWindow, Rows, Tumbling, Window
from wcrdt.windows.data_driven import DataDriven
from wcrdt.windows.durations import duration_ms
from wcrdt.windows.sessions import Session

W = TypeVar("W", bound=Assigner | Session)
Driven = DataDriven[Any]
Millis = NDArray[np.int64]


class EarlyWindows:
    """``windows``, with results each ``every_ms`` of event time before they are complete, and with retractions or not.

    As an assigner it is that of their slices, which are cut where a window ends. So each slice is of one window, and
    the last one of a window ends with it.
    """

    __slots__ = ("_slices", "every_ms", "retracts", "windows")

    def __init__(self, windows: Tumbling | GlobalWindow, every_ms: int, retracts: bool) -> None:
        self.windows = windows
        self.every_ms = every_ms
        self.retracts = retracts
        self._slices = Tumbling(every_ms)

    def window_of(self, ts_ms: int) -> Window:
        """The window that takes a time."""
        return self.windows.windows_for(ts_ms)[0]

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        return (self._cut(self._slices.windows_for(ts_ms)[0], self.window_of(ts_ms)),)

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        for window, rows in self.windows.split(ts_ms):
            index = np.arange(len(ts_ms))[rows]
            for one, part in self._slices.split(ts_ms[index]):
                yield self._cut(one, window), index[part]

    def last_times(self, ts_ms: Millis) -> Millis:
        """The last time of the window that takes each of these."""
        found = np.empty(len(ts_ms), np.int64)
        for window, rows in self.windows.split(ts_ms):
            found[rows] = min(window.end_ms, MAX_TS_MS) - 1
        return found

    def _cut(self, one: Window, window: Window) -> Window:
        end_ms = one.end_ms if one.end_ms < MAX_TS_MS else END_OF_TIME_MS
        return Window(max(one.start_ms, window.start_ms), min(end_ms, window.end_ms))

    def describe(self) -> str:
        """Canonical text of the parameters, part of the job's fingerprint."""
        return f"early({self.windows.describe()},{self.every_ms},{'retract' if self.retracts else 'upsert'})"


def with_early(windows: W | Driven, early: int | str | None, updates: str | None) -> W | EarlyWindows | DrivenSlices:
    """The windows of a step. Raises ``FlowError`` where there are no early results of these, or they are no windows."""
    if not isinstance(windows, Session | DataDriven) and not hasattr(windows, "windows_for"):
        raise FlowError(f'window ({caller()}): give windows, as Tumbling("10s"), not {windows!r:.100}')
    if early is None and updates is not None:
        raise FlowError(f'window ({caller()}): updates={updates!r} is for early results: give early="10s", too')
    if isinstance(windows, DataDriven):
        return _driven(windows, early, updates)
    if early is None:
        return windows
    if not isinstance(windows, Tumbling | GlobalWindow):
        raise FlowError(
            f"window ({caller()}): early results are those of Tumbling windows, GlobalWindow and windows driven by "
            f"data, got {windows!r}; those of Sliding windows come with each slide, and sessions have none before they "
            f"end"
        )
    every_ms = duration_ms(early)
    size_ms = windows.size_ms if isinstance(windows, Tumbling) else MAX_TS_MS
    if not 0 < every_ms < size_ms:
        raise FlowError(
            f"window ({caller()}): early is more than 0 ms and less than the window's size, got {early!r} for "
            f"{windows!r}"
        )
    return EarlyWindows(windows, every_ms, _retracts(updates))


def _driven(windows: Driven, early: int | str | None, updates: str | None) -> DrivenSlices:
    early_ms = None if early is None else duration_ms(early)
    try:
        return DrivenSlices(windows, early_ms, _retracts(updates))
    except FlowError as error:
        raise FlowError(f"window ({caller()}): {error}") from error


def _retracts(updates: str | None) -> bool:
    if updates not in (None, "upsert", "retract"):
        raise FlowError(f'window ({caller()}): updates is "upsert" or "retract", got {updates!r}')
    return updates == "retract"
