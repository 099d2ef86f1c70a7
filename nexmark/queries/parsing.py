"""One Nexmark record after the other, by msgspec: right for every record, and what compiled loops fall back on.

A record is dead unless it is a JSON object (RFC 8259, UTF-8) whose ``event_type`` names a sub-object that has the
fields that the query needs, with their types. Other fields do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from holon import DeserializationError
from nexmark.model import AUCTION, BID, PERSON

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Fields = Mapping[str, type]

SUBJECTS = ("person", "auction", "bid")

_ENCODED_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class Parsed:
    """Kind and sub-object of the records at ``rows`` (None: all), and why the others are bad."""

    kinds: list[int] = field(default_factory=list)
    subjects: list[Any] = field(default_factory=list)
    rows: list[int] | None = None
    bad: list[tuple[int, str]] = field(default_factory=list)


class Parser:
    """``fields``: of person, auction and bid, the fields that are needed and their types (``int`` or ``str``)."""

    def __init__(self, fields: Sequence[Fields]) -> None:
        self.fields = fields
        self.types = [_struct(name, of) for name, of in zip(SUBJECTS, fields, strict=True)]
        optional = [(name, kind | None, None) for name, kind in zip(SUBJECTS, self.types, strict=True)]
        event = msgspec.defstruct("Event", [("event_type", int), *optional], gc=False)
        self._event: Callable[[bytes], Any] = msgspec.json.Decoder(event).decode
        self._subjects = [msgspec.json.Decoder(kind).decode for kind in self.types]
        self._outer = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def parse(self, payloads: Sequence[bytes]) -> Parsed:
        """Read a run of records."""
        try:
            return self._parse_fast(payloads)
        except (*_ENCODED_ERRORS, DeserializationError):
            return self.parse_each(payloads, range(len(payloads)))

    def _parse_fast(self, payloads: Sequence[bytes]) -> Parsed:
        """The common case in a few C-speed loops; raises if any record needs a closer check."""
        payloads = list(payloads)
        if not all(map(bytes.isascii, payloads)):
            raise DeserializationError("skipped text is only checked to be UTF-8 one by one")
        decode = self._event
        events = [decode(payload) for payload in payloads]
        kinds = [event.event_type for event in events]
        subjects = [event.bid for event in events]
        for row, kind in enumerate(kinds):
            if kind != BID:
                subjects[row] = _other(events[row], kind)
        if None in subjects:
            raise DeserializationError("no sub-object of the kind")
        return Parsed(kinds, subjects)

    def parse_each(self, payloads: Sequence[bytes], rows: Sequence[int]) -> Parsed:
        """Read the records at these rows, one by one."""
        parsed = Parsed(rows=[])
        assert parsed.rows is not None
        for row in rows:
            try:
                kind, subject = self._parse_one(payloads[row])
            except (*_ENCODED_ERRORS, DeserializationError) as error:
                parsed.bad.append((row, str(error) or type(error).__name__))
                continue
            parsed.kinds.append(kind)
            parsed.subjects.append(subject)
            parsed.rows.append(row)
        return parsed

    def _parse_one(self, payload: bytes) -> tuple[int, Any]:
        """Reads only what the record's own kind needs: another kind's sub-object may hold anything."""
        payload.decode("utf-8")
        outer = self._outer(payload)
        kind = msgspec.json.decode(outer.get("event_type", b"null"))
        if type(kind) is not int or not PERSON <= kind <= BID:
            raise DeserializationError(f"event_type is {kind!r}, not 0, 1 or 2")
        raw = outer.get(SUBJECTS[kind])
        if raw is None:
            raise DeserializationError(f"no {SUBJECTS[kind]}")
        try:
            return kind, self._subjects[kind](raw)
        except msgspec.ValidationError:
            return kind, self._last_fields(kind, raw)

    def _last_fields(self, kind: int, raw: msgspec.Raw) -> Any:
        """Of repeated names the last one counts, also where an earlier one has a wrong type."""
        fields = self._outer(raw)
        wanted = {name: fields[name] for name in self.fields[kind] if name in fields}
        types = {"int": Int64, "str": str}
        values = {
            name: msgspec.json.decode(value, type=types[self.fields[kind][name].__name__])
            for name, value in wanted.items()
        }
        return msgspec.convert(values, self.types[kind])


def _struct(name: str, fields: Fields) -> Any:
    typed = [(field, Int64 if kind is int else str) for field, kind in fields.items()]
    return msgspec.defstruct(name.capitalize(), typed, gc=False)


def _other(event: Any, kind: int) -> Any:
    if kind == PERSON:
        return event.person
    if kind == AUCTION:
        return event.auction
    raise DeserializationError(f"event_type is {kind}, not 0, 1 or 2")
