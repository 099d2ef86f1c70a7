"""Values of windows that are put together of panes, each of which is combined a few times and not once a window.

Panes are in blocks, as many as a window has. A window is an end of one block and a beginning of the next. The ends and
beginnings of a block are combined pane by pane, and kept.

Law: the value is the state of the elements of all panes, in whichever order windows are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wcrdt.lattice import Lattice
from wcrdt.windows.assigners import Window
from wcrdt.windows.panes import Panes

AnyLattice = Lattice[Any, Any]

_MOST_KEPT = 256
"""Sums of one block and direction; of longer windows not all are kept."""


class PaneSums:
    """Args: ``joined`` gives a pane that does not change any more, or None where it is empty; it is not written."""

    def __init__(self, panes: Panes, joined: Callable[[Window], AnyLattice | None]) -> None:
        self._panes = panes
        self._joined = joined
        self._ends: dict[int, _Sums] = {}
        self._beginnings: dict[int, _Sums] = {}

    def value(self, window: Window, own: AnyLattice | None) -> AnyLattice | None:
        """The panes of a complete window with what the window holds itself; None where all is empty.

        It is shared: not to be written.
        """
        count = self._panes.count
        first = self._panes.number(window)
        border = -(-first // count) * count
        parts = [self._sums(self._ends, border, -1).through(first)] if first < border else []
        parts.append(
            self._sums(self._beginnings, border, 1).through(first + count - 1) if first + count > border else None
        )
        found = [part for part in (*parts, own) if part is not None]
        if len(found) <= 1:
            return found[0] if found else None
        value = found[0].copy()
        for part in found[1:]:
            value.combine(part)
        return value

    def _sums(self, kept: dict[int, _Sums], border: int, step: int) -> _Sums:
        sums = kept.get(border)
        if sums is None:
            first = border if step > 0 else border - 1
            sums = kept[border] = _Sums(first, step, -(-self._panes.count // _MOST_KEPT), self._pane)
        return sums

    def _pane(self, number: int) -> AnyLattice | None:
        return self._joined(self._panes.numbered(number))

    def clear(self) -> None:
        """Know nothing again."""
        self._ends.clear()
        self._beginnings.clear()

    def drop_through(self, end_ms: int) -> None:
        """Windows that end at or before this are not asked for any more."""
        for kept, last in ((self._ends, -1), (self._beginnings, 0)):
            for border in [b for b in kept if self._panes.numbered(b + last).end_ms <= end_ms]:
                del kept[border]


class _Sums:
    """The panes from ``first`` on in one direction, combined: the sum through every ``every``-th one is kept."""

    def __init__(self, first: int, step: int, every: int, pane: Callable[[int], AnyLattice | None]) -> None:
        self._first, self._step, self._every = first, step, every
        self._pane = pane
        self._kept: list[AnyLattice | None] = []

    def through(self, number: int) -> AnyLattice | None:
        """The sum of the panes from the first one through this one."""
        places = (number - self._first) * self._step + 1
        while len(self._kept) < places // self._every:
            start = len(self._kept) * self._every
            self._kept.append(self._extended(self._kept[-1] if self._kept else None, start, start + self._every))
        whole = places // self._every
        return self._extended(self._kept[whole - 1] if whole else None, whole * self._every, places)

    def _extended(self, sum: AnyLattice | None, start: int, stop: int) -> AnyLattice | None:
        is_own = False
        for place in range(start, stop):
            pane = self._pane(self._first + place * self._step)
            if pane is None:
                continue
            if sum is None:
                sum = pane
                continue
            if not is_own:
                sum, is_own = sum.copy(), True
            sum.combine(pane)
        return sum
