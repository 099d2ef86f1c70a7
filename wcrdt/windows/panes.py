"""Panes: the slices that sliding windows share, so that an element is inserted once.

A pane holds the elements of one slide. All windows that take such elements are put together of their panes once they
are complete. An element that comes when its slide is over, but not all of its windows, is in these windows themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from wcrdt.windows.assigners import Assigner, Sliding, Tumbling, Window
from wcrdt.windows.held_longer import HeldLonger, held_longer_ms

LEAST_OVERLAP = 4
"""With fewer windows for each time, an insert into each of them costs less than putting panes together."""


class Panes:
    """The panes of ``windows``, which are held ``later_ms`` later: of as many slides as one of these is long.

    A state holds a pane beside its windows, under the last ``slide_ms`` of the last window that it is a part of. So it
    is told from a window by its length, and is held as long as a window needs it.
    """

    __slots__ = ("_later_ms", "_size_ms", "_slide_ms", "count", "slices")

    def __init__(self, windows: Sliding, later_ms: int = 0) -> None:
        self._later_ms = later_ms
        self._size_ms, self._slide_ms = windows.size_ms, windows.slide_ms
        self.count = self._size_ms // self._slide_ms
        """Of one window."""
        slices = Tumbling(self._slide_ms)
        self.slices: Assigner = HeldLonger(slices, later_ms) if later_ms else slices
        """A row that comes in time for its slice belongs in the pane."""

    def pane(self, slice: Window) -> Window:
        """The pane of a slice."""
        last_end_ms = slice.start_ms + self._size_ms
        return Window(last_end_ms - self._slide_ms, last_end_ms)

    def is_window(self, window: Window) -> bool:
        """Whether it is one that takes elements; others, panes too, never have a value."""
        return (
            window.end_ms - window.start_ms == self._size_ms
            and (window.start_ms - self._later_ms) % self._slide_ms == 0
        )

    def windows(self, held: Window) -> list[Window]:
        """The windows to which a pane, or a window that is held itself, belongs; by end."""
        return self.windows_ending(self.ends(held))

    def windows_ending(self, ends: range) -> list[Window]:
        """One for each end."""
        return [Window(end - self._size_ms, end) for end in ends]

    def ends(self, held: Window) -> range:
        """Their ends."""
        is_pane = held.end_ms - held.start_ms == self._slide_ms
        first_ms = held.end_ms - (self._size_ms - self._slide_ms if is_pane else 0)
        return range(first_ms, held.end_ms + 1, self._slide_ms)

    def of(self, window: Window) -> list[Window]:
        """The panes of a window, by time."""
        ends = range(window.end_ms, window.end_ms + self._size_ms, self._slide_ms)
        return [Window(end - self._slide_ms, end) for end in ends]

    def number(self, window: Window) -> int:
        """Of a window among all. Its first pane has the same among panes."""
        return (window.start_ms - self._later_ms) // self._slide_ms

    def numbered(self, number: int) -> Window:
        """The pane with this number."""
        start_ms = number * self._slide_ms + self._later_ms
        return self.pane(Window(start_ms, start_ms + self._slide_ms))


def ended(panes: Panes | None, held: Window, after_ms: int, through_ms: int) -> Sequence[Window]:
    """The windows with ``after_ms < end <= through_ms`` to which what is held of a state belongs; by end."""
    if panes is None:
        return (held,) if after_ms < held.end_ms <= through_ms else ()
    ends = panes.ends(held)
    return panes.windows_ending(ends[bisect_right(ends, after_ms) : bisect_right(ends, through_ms)])


def first_end(panes: Panes | None, held: Window, after_ms: int) -> int:
    """The first end behind ``after_ms`` of a window to which what is held belongs, where there is one."""
    ends = range(held.end_ms, held.end_ms + 1) if panes is None else panes.ends(held)
    return ends[bisect_right(ends, after_ms)]


def last_end(panes: Panes | None, held: Window, through_ms: int) -> int | None:
    """The last end through ``through_ms`` of such a window; None: there is none."""
    ends = range(held.end_ms, held.end_ms + 1) if panes is None else panes.ends(held)
    place = bisect_right(ends, through_ms)
    return ends[place - 1] if place else None


def panes_of(windows: Assigner, combines: bool) -> Panes | None:
    """None where elements are inserted into each of their windows. ``combines``: as the lattice of the state."""
    inner = windows.windows if isinstance(windows, HeldLonger) else windows
    if type(inner) is not Sliding or not combines or inner.size_ms // inner.slide_ms < LEAST_OVERLAP:
        return None
    return Panes(inner, held_longer_ms(windows))
