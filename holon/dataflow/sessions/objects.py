"""Open sessions as objects: of few keys, of keys of several kinds, and of lattices that have no columns.

One rule for this file: what is due follows from the sessions alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from holon.time.units import MAX_TS_MS
from wcrdt import RecordOf, Session
from wcrdt.elements import ordered

FIRST, LAST = "first", "last"
"""Parts of a session's record: the times of its first and last row."""


class OpenObjects:
    """Sessions by key, and by end of slice the keys that are due in it, but for rows that have come since."""

    def __init__(self, sessions: dict[Any, RecordOf], windows: Session) -> None:
        self.sessions = sessions
        self._due: defaultdict[int, list[Any]] = defaultdict(list)
        for key, session in sessions.items():
            self._note(key, session, windows)

    def fold(
        self, arrived: Mapping[Any, RecordOf], end_ms: int, windows: Session, bottom: RecordOf
    ) -> list[tuple[Any, RecordOf]]:
        """Take in a slice; gives the sessions that close, with their keys."""
        sessions, closed = self.sessions, []
        for key in ordered(arrived):
            part, session = arrived[key], sessions.get(key)
            if session is not None and part[FIRST].value - session[LAST].value > windows.gap_ms:
                closed.append((key, session))
                session = None
            if session is None:
                session = sessions[key] = bottom.bottom()
            session.combine(part)
            self._note(key, session, windows)
        for key in self._due.pop(end_ms, ()):
            if key in sessions and due_ms(sessions[key], windows) < end_ms:
                closed.append((key, sessions.pop(key)))
        return closed

    def _note(self, key: Any, session: RecordOf, windows: Session) -> None:
        """The session is due in a slice, as far as is known."""
        (window,) = windows.slices.windows_for(due_ms(session, windows))
        self._due[window.end_ms].append(key)


def due_ms(session: RecordOf, windows: Session) -> int:
    """The last time at which a row still belongs to the session; an event can have it."""
    return min(session[LAST].value + windows.gap_ms, MAX_TS_MS - 1)
