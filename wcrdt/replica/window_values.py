"""Values of windows: what all contributions to a window, or to its panes, are together.

Law: the value of a complete window is the same in whichever order values are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from wcrdt.lattice import Lattice
from wcrdt.replica.pane_sums import PaneSums
from wcrdt.windows.assigners import Window
from wcrdt.windows.panes import Panes

AnyLattice = Lattice[Any, Any]


class WindowValues:
    """Of states by name, with their bottoms and panes; those of complete windows are made once.

    ``joined`` gives all contributions to a window or pane of a state together, not to be written; None: there are none.
    """

    def __init__(
        self,
        states: Mapping[str, tuple[AnyLattice, Panes | None]],
        joined: Callable[[str, Window], AnyLattice | None],
    ) -> None:
        self._states = dict(states)
        self._joined = joined
        self._known: dict[tuple[str, Window], AnyLattice] = {}
        self._sums = {
            name: PaneSums(p, partial(joined, name)) for name, (_, p) in self._states.items() if p is not None
        }

    def final(self, state: str, window: Window) -> AnyLattice:
        """Of a window that does not change any more. It is shared: not to be written."""
        value = self._known.get((state, window))
        if value is None:
            value = self._known[state, window] = self._final(state, window)
        return value

    def _final(self, state: str, window: Window) -> AnyLattice:
        bottom, panes = self._states[state]
        found = None
        if panes is None:
            found = self._joined(state, window)
        elif panes.is_window(window):
            found = self._sums[state].value(window, self._joined(state, window))
        return bottom.bottom() if found is None else found

    def current(self, state: str, window: Window) -> AnyLattice:
        """Of all that there is now."""
        bottom, panes = self._states[state]
        held: list[Window] = [window] if panes is None else []
        if panes is not None and panes.is_window(window):
            held = [window, *panes.of(window)]
        found = [part for part in (self._joined(state, each) for each in held) if part is not None]
        if not found:
            return bottom.bottom()
        value = found[0] if len(found) == 1 else found[0].copy()
        for part in found[1:]:
            value.combine(part)
        return value

    def drop_through(self, end_ms: int) -> None:
        """Forget the windows that end at or before ``end_ms``."""
        for key in [key for key in self._known if key[1].end_ms <= end_ms]:
            del self._known[key]
        for sums in self._sums.values():
            sums.drop_through(end_ms)

    def clear(self) -> None:
        """Know nothing again."""
        self._known.clear()
        for sums in self._sums.values():
            sums.clear()
