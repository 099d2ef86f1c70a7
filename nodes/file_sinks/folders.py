"""The folder of a row: the template of a path, filled with the row's time and fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec

from holon.files import TIMES, Files
from holon.outputs.identity import OutputId, Track
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""The folder of an absent value, as Hive, Spark and DuckDB call it."""
_PATTERNS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
assert tuple(_PATTERNS) == TIMES


class Unplaceable(ValueError):
    """A row has no folder."""


def text_of(value: Any) -> str:
    """A value of JSON as CSV has it and as a folder is called; nested values are JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


class Folders:
    """``of`` gives the folder of a row, which depends on the row and its identity alone."""

    def __init__(self, files: Files) -> None:
        self._pieces = files.placeholders
        self._needs_time = files.needs_time
        self._time = files.time

    @property
    def fields(self) -> bool:
        """Whether the rows themselves are looked at."""
        return any(name is not None and name not in TIMES for _, name in self._pieces) or self._time is not None

    def of(self, row: Any, identity: OutputId | None) -> str:
        """Raises ``Unplaceable``."""
        if not self._pieces:
            return ""
        time = self._time_of(row, identity) if self._needs_time else None
        found = []
        for text, name in self._pieces:
            found.append(text)
            if name in _PATTERNS:
                assert time is not None
                found.append(time.strftime(_PATTERNS[name]))
            elif name is not None:
                found.append(_named(field(row, name)))
        return "".join(found) + "/"

    def _time_of(self, row: Any, identity: OutputId | None) -> datetime:
        if self._time is not None:
            return _datetime(field(row, self._time), self._time)
        if identity is None or identity.track is not Track.WINDOW:
            raise Unplaceable("it comes from a record and not from a window: name the field with its time (time=)")
        if not BEFORE_TIME_MS < identity.position < END_OF_TIME_MS:
            raise Unplaceable("its window covers all time: name the field with its time (time=)")
        return _of_ms(identity.position - 1)


def field(row: Any, path: str) -> Any:
    """A field of a row, or of a Struct within it (``a.b``); None where an outer one is null."""
    for name in path.split("."):
        if row is None:
            return None
        if not isinstance(row, Mapping) or name not in row:
            known = ", ".join(row) if isinstance(row, Mapping) else f"it is a {type(row).__name__}"
            raise Unplaceable(f"it has no field {path!r} ({known})")
        row = row[name]
    return row


def _named(value: Any) -> str:
    if isinstance(value, float | Mapping | list):
        raise Unplaceable(f"folders are named by texts, ints and booleans, and this is {text_of(value):.50}")
    text = text_of(value)
    if not text:
        return NOTHING
    named = quote(text, safe=" ")
    # Readers pass over names that begin with these, and a dot alone is another folder.
    return f"%{ord(named[0]):02X}{named[1:]}" if named[0] in "._" else named


def _datetime(value: Any, name: str) -> datetime:
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return _of_ms(value)
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo is not None else found
    except (ValueError, OverflowError):
        pass
    raise Unplaceable(f"its field {name!r} is no time (epoch ms, or a text of ISO 8601): {text_of(value):.50}")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _of_ms(time_ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError as error:
        raise Unplaceable(f"its time {time_ms} ms is in no year from 1 to 9999") from error
