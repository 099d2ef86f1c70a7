"""Windows of event time and the assigner protocol; tumbling, sliding and global windows.

Times are integer milliseconds since the Unix epoch, UTC. A window is half-open: ``start_ms <= t < end_ms``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wcrdt.distinct import distinct
from wcrdt.windows.days import DAY_MS, ZoneDays
from wcrdt.windows.durations import duration_ms

Millis = NDArray[np.int64]
Rows = NDArray[np.intp] | slice

END_OF_TIME_MS = 2**62
"""Watermark after the last record of a bounded partition; later than every window's end."""
BEFORE_TIME_MS = -(2**62)
"""Watermark before the first record."""
_FEW_WINDOWS, _MANY_ROWS = 16, 1024
"""Rows of so few windows are searched window by window, if there are so many rows: ordering them costs 20 passes."""


class Window(NamedTuple):
    """``[start_ms, end_ms)``; ordered by start, then end. Completion order is by end: use ``window.end_ms`` as key."""

    start_ms: int
    end_ms: int


class Assigner(Protocol):
    """Maps event times to windows. Sliding and session windows are further classes, not changes here."""

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        """All windows that take an element at this time."""
        ...

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        """Group the rows of a column of times by window: each window once, in any order, rows ascending."""
        ...

    def describe(self) -> str:
        """Canonical text of the parameters, part of the job's fingerprint."""
        ...


class Tumbling:
    """Windows of one size, side by side: ``[k * size, (k + 1) * size)`` shifted by ``offset_ms``.

    Args: ``size_ms`` > 0; ``offset_ms`` shifts the borders (Flink's window offset). Both are ms, or texts: ``"10s"``.
    ``tz`` makes them days of that zone, from midnight to midnight. A day has 23 or 25 hours where its clock changes.
    Then both are whole days: ``Tumbling("7d", "4d", tz="Europe/Berlin")`` has weeks that begin on Monday.

    Raises ``ValueError`` for other sizes, and for a zone that this machine does not know.
    """

    __slots__ = ("_days", "offset_ms", "size_ms")

    def __init__(self, size_ms: int | str, offset_ms: int | str = 0, *, tz: str | None = None) -> None:
        self.size_ms = duration_ms(size_ms)
        if self.size_ms <= 0:
            raise ValueError(f"a tumbling window needs size_ms > 0, got {size_ms}")
        self.offset_ms = duration_ms(offset_ms) % self.size_ms
        if tz is not None and (self.size_ms % DAY_MS or self.offset_ms % DAY_MS):
            raise ValueError(
                f"windows of a time zone are whole days, got a size of {size_ms} and an offset of {offset_ms}; leave "
                f"tz= out for windows of hours, which are as long everywhere"
            )
        self._days = None if tz is None else ZoneDays(tz)

    @classmethod
    def of(cls, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> Tumbling:
        """``Tumbling.of(seconds=10)``."""
        return cls(_millis(seconds, minutes, hours))

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        if self._days is not None:
            ts_ms = self._days.day_of(ts_ms) * DAY_MS
        return (self._window(self._number(ts_ms)),)

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        if len(ts_ms) == 0:
            return
        local_ms = ts_ms if self._days is None else self._days.days_of(ts_ms) * DAY_MS
        first, last = (self._number(int(end)) for end in (np.minimum.reduce(local_ms), np.maximum.reduce(local_ms)))
        if first == last:  # the common case: a batch inside one window, whose times need not be divided
            yield self._window(first), slice(0, len(ts_ms))
            return
        runs = _runs(self._number(local_ms) - first, last - first)
        yield from ((self._window(first + number), rows) for number, rows in runs)

    def _number(self, ts_ms: Any) -> Any:
        """Of the window of a time, or of each of a column."""
        return (ts_ms - self.offset_ms) // self.size_ms if self.offset_ms else ts_ms // self.size_ms

    def _window(self, number: int) -> Window:
        start = number * self.size_ms + self.offset_ms
        if self._days is None:
            return Window(start, start + self.size_ms)
        return Window(*(self._days.start_ms(border // DAY_MS) for border in (start, start + self.size_ms)))

    def describe(self) -> str:
        zone = "" if self._days is None else f",{self._days.zone} {self._days.digest}"
        return f"tumbling({self.size_ms},{self.offset_ms}{zone})"

    def __repr__(self) -> str:
        zone = "" if self._days is None else f", tz={self._days.zone!r}"
        return f"Tumbling(size_ms={self.size_ms}, offset_ms={self.offset_ms}{zone})"


def _runs(numbers: NDArray[np.int64], largest: int) -> Iterator[tuple[int, Rows]]:
    """The rows of each number from 0 to ``largest``."""
    steps = np.diff(numbers)
    if np.minimum.reduce(steps) >= 0:  # in order, as records of one producer are: no row need be picked
        ends = [*(np.flatnonzero(steps) + 1).tolist(), len(numbers)]
        for start, end in pairwise([0, *ends]):
            yield int(numbers[start]), slice(start, end)
        return
    if largest < _FEW_WINDOWS and len(numbers) >= _MANY_ROWS:
        narrow = numbers.astype(np.uint8)
        for number in range(largest + 1):
            rows = np.flatnonzero(narrow == number)
            if len(rows):
                yield number, rows
        return
    # NumPy orders integers of 16 bits in linear time.
    order = np.argsort(numbers.astype(np.uint16) if largest < 2**16 else numbers, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        yield int(numbers[rows[0]]), rows


def _millis(seconds: float, minutes: float, hours: float) -> int:
    return round((seconds + 60 * minutes + 3600 * hours) * 1000)


class Sliding:
    """Windows of ``size_ms`` that begin every ``slide_ms``, aligned to the epoch; ``size / slide`` of them take a time.

    Args: ``slide_ms`` > 0 divides ``size_ms``. Both are ms, or texts: ``Sliding("10m", "30s")``.
    """

    __slots__ = ("size_ms", "slide_ms")

    def __init__(self, size_ms: int | str, slide_ms: int | str) -> None:
        self.size_ms, self.slide_ms = duration_ms(size_ms), duration_ms(slide_ms)
        if self.slide_ms <= 0 or self.size_ms <= 0 or self.size_ms % self.slide_ms:
            raise ValueError(f"sliding windows need a slide_ms > 0 that divides size_ms, got {slide_ms} and {size_ms}")

    @classmethod
    def of(
        cls,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        slide_seconds: float = 0,
        slide_minutes: float = 0,
        slide_hours: float = 0,
    ) -> Sliding:
        """``Sliding.of(minutes=10, slide_seconds=30)``: windows of ten minutes, a new one every 30 seconds."""
        return cls(_millis(seconds, minutes, hours), _millis(slide_seconds, slide_minutes, slide_hours))

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        last = ts_ms // self.slide_ms * self.slide_ms
        starts = range(last - self.size_ms + self.slide_ms, last + 1, self.slide_ms)
        return tuple(Window(start, start + self.size_ms) for start in starts)

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        if len(ts_ms) == 0:
            return
        numbers = ts_ms // self.slide_ms
        if int(numbers.min()) == int(numbers.max()):
            for window in self.windows_for(int(ts_ms[0])):
                yield window, slice(0, len(ts_ms))
            return
        for start in distinct(np.concatenate([numbers - k for k in range(self.size_ms // self.slide_ms)])).tolist():
            window = Window(start * self.slide_ms, start * self.slide_ms + self.size_ms)
            yield window, np.flatnonzero((ts_ms >= window.start_ms) & (ts_ms < window.end_ms))

    def describe(self) -> str:
        return f"sliding({self.size_ms},{self.slide_ms})"

    def __repr__(self) -> str:
        return f"Sliding(size_ms={self.size_ms}, slide_ms={self.slide_ms})"


class GlobalWindow:
    """One window for all of event time; it completes at the end of a bounded input."""

    __slots__ = ()

    WINDOW = Window(BEFORE_TIME_MS, END_OF_TIME_MS)

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        return (self.WINDOW,)

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        if len(ts_ms):
            yield self.WINDOW, slice(0, len(ts_ms))

    def describe(self) -> str:
        return "global"

    def __repr__(self) -> str:
        return "GlobalWindow()"
