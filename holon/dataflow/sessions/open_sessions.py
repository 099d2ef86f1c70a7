"""The sessions of one shard that are open: they take in a slice after the other, and close.

Two rules for this file: what closes is a function of the slices so far, and the form changes neither that nor bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import msgspec

from holon.dataflow.sessions.columns import Closed, closed_columns, closed_objects, fold
from holon.dataflow.sessions.objects import OpenObjects
from holon.dataflow.sliced.shards import Arrived
from holon.program.checkpointable import OwnBytes
from wcrdt import ColumnsOf, RecordOf, Session, decode, encode
from wcrdt.codec import decode_element
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Unfit

Sessions = ColumnsOf[Any, Any, Any]

_ALL = b""
"""No key has these canonical bytes."""
LEAST_KEYS = 32
"""Columns take in so many keys as quickly as objects do, and more of them more quickly."""
_LONGEST_PAUSE = 64
_MOST_OPEN = 256
"""Columns go over all open sessions for each slice: with more of them for each key that comes, objects are quicker."""
_LONGEST_LACK = 256
"""Slices of too few keys until columns become objects, which costs as much as so many do."""


class Stored(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """As a checkpoint holds open sessions: the bytes of a map of them by key.

    ``states`` are those of the first release with sessions: canonical bytes of a key -> those of its session. A node of
    that release requires them, so it leaves by name where it is to go on with a map.
    """

    sessions: bytes = b""
    states: dict[bytes, bytes] = {}


class OpenSessions(OwnBytes, dict=True):
    """``states``: what was restored, or was made last for a checkpoint; under ``_ALL`` a map of them all.

    They are made of what is held when a checkpoint asks, and what is held is made of them after a restart.
    """

    states: dict[bytes, bytes]

    def to_bytes(self) -> bytes:
        held = vars(self).get("held")
        if held is not None and not self.states and (sessions := held.sessions()):
            self.states = {_ALL: encode(sessions)}
        return msgspec.msgpack.encode(Stored(self.states[_ALL]) if _ALL in self.states else self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        stored = msgspec.msgpack.decode(data, type=Stored)
        return cls({_ALL: stored.sessions} if stored.sessions else stored.states)

    def take(self, arrived: Arrived, end_ms: int, windows: Session, bottom: Sessions, names: Sequence[str]) -> Closed:
        """Take in the slice that ends at ``end_ms``, complete, by key; gives the sessions that close.

        ``bottom`` is the map of no sessions, ``names`` are the parts of which values are wanted. It is called for each
        slice with rows, and for each in which one is due.
        """
        held = vars(self).get("held")
        if held is None:
            held = vars(self)["held"] = Held(bottom, windows, self.states)
        self.states = {}
        return held.take(arrived, end_ms, names)


class Held:
    """Sessions as columns where slices come as such and these can hold them, else as objects."""

    def __init__(self, bottom: Sessions, windows: Session, states: Mapping[bytes, bytes]) -> None:
        self._bottom, self._windows = bottom, windows
        found = _restored(states, bottom)
        self._columns = found.as_columns() if found.held_as_columns else None
        self._objects = OpenObjects({} if self._columns is not None else _records(found.entries()), windows)
        self._pause = 0  # slices of many keys that are objects still
        self._next_pause = 1
        self._lack = 0  # slices of too few keys for columns, one after the other

    def sessions(self) -> Sessions:
        """All of them; not to be written."""
        if self._columns is not None:
            return self._bottom.of_columns(self._columns)
        return self._bottom.of_entries(self._objects.sessions)  # type: ignore[arg-type]

    def take(self, arrived: Arrived, end_ms: int, names: Sequence[str]) -> Closed:
        """As ``OpenSessions.take``."""
        self._leave_if_few_come(arrived)
        if self._columns is not None or self._turns(arrived):
            try:
                held = (
                    columns_of_objects(self._objects.sessions, self._bottom) if self._columns is None else self._columns
                )
                come = arrived if isinstance(arrived, KeyedColumns) else columns_of_objects(arrived, self._bottom)
                self._columns, closed = fold(held, come, end_ms, self._windows)
            except Unfit:
                self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, _LONGEST_PAUSE)
                self._to_objects()
            else:
                self._objects, self._next_pause = OpenObjects({}, self._windows), 1
                return closed_columns(closed, names)
        parts = arrived.objects() if isinstance(arrived, KeyedColumns) else arrived
        record = cast(RecordOf, self._bottom.inner)
        return closed_objects(self._objects.fold(_records(parts), end_ms, self._windows, record), names)

    def _leave_if_few_come(self, arrived: Arrived) -> None:
        lacks = self._columns is not None and _count(arrived) * _MOST_OPEN < self._columns.height
        self._lack = self._lack + 1 if lacks else 0
        if self._lack > _LONGEST_LACK:
            self._to_objects()

    def _turns(self, arrived: Arrived) -> bool:
        """Whether objects are to become columns: many keys come, and columns have not just been found unfit."""
        least = max(LEAST_KEYS, len(self._objects.sessions) // _MOST_OPEN)
        if not isinstance(arrived, KeyedColumns) or arrived.height < least:
            return False
        self._pause -= 1
        return self._pause < 0

    def _to_objects(self) -> None:
        if self._columns is not None:
            self._objects, self._columns = OpenObjects(_records(self._columns.objects()), self._windows), None


def columns_of_objects(entries: Mapping[Any, Any], bottom: Sessions) -> KeyedColumns | None:
    """None where there are none; raises ``Unfit``."""
    return bottom.of_entries(dict(entries)).as_columns()


def _count(arrived: Arrived) -> int:
    return arrived.height if isinstance(arrived, KeyedColumns) else len(arrived)


def _restored(states: Mapping[bytes, bytes], bottom: Sessions) -> Sessions:
    if _ALL in states:
        return decode(states[_ALL], bottom)
    return bottom.of_entries(
        {decode_element(key): bottom.inner.from_wire(msgspec.msgpack.decode(state)) for key, state in states.items()}
    )


def _records(entries: Mapping[Any, Any]) -> dict[Any, RecordOf]:
    return cast(dict[Any, RecordOf], entries)
