"""Windows by their end: a search for those that have ended now does not read all that are held."""

from __future__ import annotations

from bisect import bisect_right, insort

from wcrdt.windows.assigners import Window


class EndIndex:
    """A set of windows, ordered by end and then by start."""

    __slots__ = ("_ends", "_windows")

    def __init__(self) -> None:
        self._ends: list[tuple[int, Window]] = []
        self._windows: set[Window] = set()

    def add(self, window: Window) -> None:
        """Harmless when repeated."""
        if window not in self._windows:
            self._windows.add(window)
            insort(self._ends, (window.end_ms, window))

    def between(self, after_ms: int, through_ms: int) -> list[Window]:
        """Those with ``after_ms < end <= through_ms``."""
        first, stop = self._place(after_ms), self._place(through_ms)
        return [window for _, window in self._ends[first:stop]]

    def first(self, after_ms: int) -> int | None:
        """The first end after ``after_ms``; None: there is none."""
        place = self._place(after_ms)
        return self._ends[place][0] if place < len(self._ends) else None

    def count_after(self, after_ms: int) -> int:
        """How many end after ``after_ms``."""
        return len(self._ends) - self._place(after_ms)

    def drop_through(self, end_ms: int) -> None:
        """Forget those that end at or before ``end_ms``."""
        stop = self._place(end_ms)
        self._windows.difference_update(window for _, window in self._ends[:stop])
        del self._ends[:stop]

    def _place(self, end_ms: int) -> int:
        """How many end at or before ``end_ms``."""
        return bisect_right(self._ends, end_ms, key=_end)


def _end(entry: tuple[int, Window]) -> int:
    return entry[0]
