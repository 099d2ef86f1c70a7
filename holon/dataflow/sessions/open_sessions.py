"""The sessions of one shard that are open: they take in a slice after the other, and close.

Two rules for this file: what closes is a function of the slices so far, and what is decoded follows from ``states``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from holon.time.units import MAX_TS_MS
from wcrdt import RecordOf, Session
from wcrdt.codec import decode_element, encode_element
from wcrdt.elements import ordered

FIRST, LAST = "first", "last"
"""Parts of a session's record: the times of its first and last row."""
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()


class Decoded:
    """Sessions by key, and by end of slice the keys that are due in it, but for rows that have come since."""

    def __init__(self, states: Mapping[bytes, bytes], windows: Session, bottom: RecordOf) -> None:
        self.sessions: dict[Any, RecordOf] = {}
        self.due: defaultdict[int, list[Any]] = defaultdict(list)
        for key, state in states.items():
            session = self.sessions[decode_element(key)] = bottom.from_wire(_decoder.decode(state))
            self.note(decode_element(key), session, windows)

    def note(self, key: Any, session: RecordOf, windows: Session) -> None:
        """The session is due in a slice, as far as is known."""
        (window,) = windows.slices.windows_for(due_ms(session, windows))
        self.due[window.end_ms].append(key)


class OpenSessions(msgspec.Struct, dict=True):
    """``states``: canonical bytes of a key -> those of its session. A checkpoint holds that alone."""

    states: dict[bytes, bytes]

    def take(
        self, arrived: Mapping[Any, RecordOf], end_ms: int, windows: Session, bottom: RecordOf
    ) -> list[tuple[Any, RecordOf]]:
        """Take in the slice that ends at ``end_ms``, complete, by key; gives the sessions that close, with their keys.

        ``bottom`` is the record of no rows. It is called for each slice with rows, and for each in which one is due.
        """
        decoded = self._decoded(windows, bottom)
        sessions, closed = decoded.sessions, []
        changed = dict.fromkeys(ordered(arrived))  # not as they came: equal slices give equal states
        for key in list(changed):
            part, session = arrived[key], sessions.get(key)
            if session is not None and part[FIRST].value - session[LAST].value > windows.gap_ms:
                closed.append((key, session))
                session = None
            if session is None:
                session = sessions[key] = bottom.bottom()
            session.combine(part)
            decoded.note(key, session, windows)
        for key in decoded.due.pop(end_ms, ()):
            if key in sessions and due_ms(sessions[key], windows) < end_ms:
                closed.append((key, sessions.pop(key)))
                changed[key] = None
        for key in changed:
            self._write(key, sessions.get(key))
        return closed

    def _write(self, key: Any, session: RecordOf | None) -> None:
        if session is None:
            self.states.pop(encode_element(key), None)
        else:
            self.states[encode_element(key)] = _encoder.encode(session.to_wire())

    def _decoded(self, windows: Session, bottom: RecordOf) -> Decoded:
        """Made once, and kept beside ``states`` then; a value that was restored makes its own."""
        kept = vars(self).get("decoded")
        if kept is None:
            kept = vars(self)["decoded"] = Decoded(self.states, windows, bottom)
        return kept


def due_ms(session: RecordOf, windows: Session) -> int:
    """The last time at which a row still belongs to the session; an event can have it."""
    return min(session[LAST].value + windows.gap_ms, MAX_TS_MS - 1)
