"""Windows of one partition alone, as its handlers and its records read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holon.program.states import Windowed
from wcrdt.replica.slots import PrivateTrack
from wcrdt.replica.window_values import WindowValues
from wcrdt.windows.assigners import Window
from wcrdt.windows.panes import ended, first_end


class OwnWindows:
    """Of the private states among ``windowed``, which are written on ``track``."""

    def __init__(self, windowed: Mapping[str, Windowed[Any, Any]], track: PrivateTrack) -> None:
        self._states = {name: decl for name, decl in windowed.items() if not decl.shared}
        self._track = track
        self._values = WindowValues({name: (d.bottom, d.panes) for name, d in self._states.items()}, self._held)

    def _held(self, name: str, held: Window) -> Any:
        return self._track.contributions.get(name, {}).get(held)

    def ended(self, name: str, after_ms: int, through_ms: int) -> list[Window]:
        """Those with ``after_ms < end <= through_ms`` to which something was added, in any order."""
        panes, found = self._states[name].panes, list(self._track.contributions.get(name, ()))
        if panes is None:
            return [window for window in found if after_ms < window.end_ms <= through_ms]
        return list(dict.fromkeys(window for held in found for window in ended(panes, held, after_ms, through_ms)))

    def first_end(self, after_ms: int) -> int | None:
        """The first end behind ``after_ms`` of a window of any state; None: there is none."""
        found = ((self._states[n].panes, held) for n, windows in self._track.contributions.items() for held in windows)
        ends = (first_end(panes, held, after_ms) for panes, held in found if held.end_ms > after_ms)
        return min(ends, default=None)

    def value(self, name: str, window: Window, *, lasting: bool) -> Any:
        """Not to be written. ``lasting``: nothing of it may be undone any more, as where a record in hand reads it."""
        return self._values.final(name, window) if lasting else self._values.current(name, window)

    def drop_through(self, end_ms: int) -> None:
        """Forget the windows that end at or before ``end_ms``."""
        self._track.drop_through(end_ms)
        self._values.drop_through(end_ms)
