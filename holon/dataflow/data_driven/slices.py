"""Slices of event time of windows that are driven by data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.errors import FlowError
from holon.time.units import MAX_TS_MS
from wcrdt.windows.assigners import END_OF_TIME_MS, Rows, Tumbling, Window
from wcrdt.windows.data_driven import Count, DataDriven

Millis = NDArray[np.int64]
LAST_MS = MAX_TS_MS - 1
"""The last time that an event may have: its slice is complete at the end of the input alone."""


class DrivenSlices:
    """An assigner of the slices of ``windows``. With ``early`` these are as long as that, with results at their ends.

    Raises ``FlowError`` where ``windows`` are of one's own and contradict what they are to have.
    """

    __slots__ = ("_slices", "early", "retracts", "slice_ms", "timeout_ms", "windows")

    def __init__(self, windows: DataDriven[Any], early_ms: int | None = None, retracts: bool = False) -> None:
        self.windows = windows
        self.early = early_ms is not None
        self.retracts = retracts
        self.slice_ms = windows.slice_ms if early_ms is None else early_ms
        self.timeout_ms = windows.timeout_ms
        for name, given in (
            ("slice_ms", self.slice_ms),
            ("timeout_ms", 1 if self.timeout_ms is None else self.timeout_ms),
        ):
            if type(given) is not int or given < 1:
                raise FlowError(f"{name} of {windows!r} is an int of 1 or more (ms), got {given!r}")
        if not all(map(callable, windows.marks)):
            raise FlowError(f"marks of {windows!r} are functions of a row, got {windows.marks!r}")
        self._slices = Tumbling(self.slice_ms)

    @property
    def may_stay_open(self) -> bool:
        """Whether rows of a key may come for ever without one that closes its window."""
        return self.timeout_ms is None and not isinstance(self.windows, Count)

    def due_ms(self, ts_ms: Millis) -> Millis:
        """The last times of windows that begin at these; their slices close them. There is a timeout."""
        assert self.timeout_ms is not None
        return np.minimum(ts_ms + self.timeout_ms, MAX_TS_MS) - 1

    def end_of(self, ts_ms: int) -> int:
        """The end of the slice of a time."""
        return self.windows_for(ts_ms)[0].end_ms

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        return (_to_the_end(self._slices.windows_for(ts_ms)[0]),)

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        for window, rows in self._slices.split(ts_ms):
            yield _to_the_end(window), rows

    def describe(self) -> str:
        """Canonical text of the parameters, part of the job's fingerprint."""
        updates = ("retract" if self.retracts else "upsert") if self.early else "final"
        return f"driven({self.windows.describe()},{self.slice_ms},{updates})"


def _to_the_end(window: Window) -> Window:
    return window if window.end_ms < MAX_TS_MS else Window(window.start_ms, END_OF_TIME_MS)
