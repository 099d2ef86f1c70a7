"""Windows that take elements longer than others of the same job.

Watermarks close windows in the order of their ends. A window that stays open longer is held under times that are later
by as much. So order, completion, contributions and checkpoints know of one lateness alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from wcrdt.windows.assigners import END_OF_TIME_MS, Assigner, Millis, Rows, Window


class HeldLonger:
    """The windows of another assigner, each held under times later by ``by_ms`` > 0.

    A window that ends with event time stays as it is: nothing is late for it.
    """

    __slots__ = ("by_ms", "windows")

    def __init__(self, windows: Assigner, by_ms: int) -> None:
        assert by_ms > 0
        self.windows, self.by_ms = windows, by_ms

    def held(self, window: Window) -> Window:
        """A window as it is held."""
        return self._moved(window, self.by_ms)

    def shown(self, held: Window) -> Window:
        """The window of one that is held."""
        return self._moved(held, -self.by_ms)

    def _moved(self, window: Window, by_ms: int) -> Window:
        if window.end_ms >= END_OF_TIME_MS:
            return window
        return Window(window.start_ms + by_ms, window.end_ms + by_ms)

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        return tuple(map(self.held, self.windows.windows_for(ts_ms)))

    def split(self, ts_ms: Millis) -> Iterator[tuple[Window, Rows]]:
        for window, rows in self.windows.split(ts_ms):
            yield self.held(window), rows

    def describe(self) -> str:
        """Canonical text of the parameters, part of the job's fingerprint."""
        return f"later({self.windows.describe()},{self.by_ms})"

    def __repr__(self) -> str:
        return f"HeldLonger({self.windows!r}, {self.by_ms})"


def shown(windows: Assigner, held: Window) -> Window:
    """The window of one that is held."""
    return windows.shown(held) if isinstance(windows, HeldLonger) else held


def held_longer_ms(windows: Assigner) -> int:
    """How much longer than others they are held."""
    return windows.by_ms if isinstance(windows, HeldLonger) else 0
