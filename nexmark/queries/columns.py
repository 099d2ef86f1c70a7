"""Nexmark records of a topic as columns: kind, event time, and the fields that a query names.

A record is dead unless it is a JSON object (RFC 8259, UTF-8) whose ``event_type`` names a sub-object that has the
fields that the query needs, with their types, and a valid time. What else is in it does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from holon import Decoded, DecodeFailure
from nexmark.model import AUCTION, BID, PERSON
from nexmark.times import INVALID_TIME, parse_times_ms

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

SUBJECTS = ("person", "auction", "bid")
TIME = {"dateTime": str}

_ENCODED_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class NexmarkColumns:
    """Columns ``kind`` (int8), ``time_ms`` (int64) and ``subject``: one Struct a row with the fields asked for.

    Args: ``bid``, ``auction``, ``person``: field name -> ``int`` or ``str``, on the wire names; ``dateTime`` is always
    there. Only these are decoded.
    """

    def __init__(
        self,
        bid: Mapping[str, type] | None = None,
        auction: Mapping[str, type] | None = None,
        person: Mapping[str, type] | None = None,
    ) -> None:
        self.fields = tuple({**(wanted or {}), **TIME} for wanted in (person, auction, bid))
        self.types = [_struct(name, fields) for name, fields in zip(SUBJECTS, self.fields, strict=True)]
        optional = [(name, kind | None, None) for name, kind in zip(SUBJECTS, self.types, strict=True)]
        event = msgspec.defstruct("Event", [("event_type", int), *optional], gc=False)
        self._event: Callable[[bytes], Any] = msgspec.json.Decoder(event).decode
        self._subjects = [msgspec.json.Decoder(kind).decode for kind in self.types]
        self._outer = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        asked = [f"{name}({', '.join(sorted(fields))})" for name, fields in zip(SUBJECTS, self.fields, strict=True)]
        return f"nexmark json {' '.join(asked)}"

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        bad: list[tuple[int, str]] = []
        rows: list[int] | None = None
        try:
            kinds, subjects = self._decode_fast(payloads)
        except (*_ENCODED_ERRORS, DecodeFailure):
            kinds, subjects, rows, bad = self._decode_each(payloads)
        times = parse_times_ms([subject.dateTime for subject in subjects])
        good = times != INVALID_TIME
        for name in ("expires",) if "expires" in self.fields[AUCTION] else ():
            good &= _valid_times(name, kinds, subjects)
        index = None if rows is None else np.array(rows, dtype=np.intp)
        kind_column = np.array(kinds, dtype=np.int8)
        if not good.all():
            index = np.arange(len(payloads)) if index is None else index
            bad += [(int(row), "not a valid time") for row in index[~good]]
            keep = np.flatnonzero(good)
            index, kind_column, times = index[keep], kind_column[keep], times[keep]
            subjects = [subjects[i] for i in keep.tolist()]
        bad.sort()
        return Decoded(index, columns={"kind": kind_column, "time_ms": times, "subject": subjects}, bad=bad)

    def _decode_fast(self, payloads: Sequence[bytes]) -> tuple[list[int], list[Any]]:
        """The common case in a few C-speed loops; raises if any record needs a closer look."""
        if not all(map(bytes.isascii, payloads)):
            raise DecodeFailure("skipped text is only checked to be UTF-8 one by one")
        decode = self._event
        events = [decode(payload) for payload in payloads]
        kinds = [event.event_type for event in events]
        subjects = [event.bid for event in events]
        for row, kind in enumerate(kinds):
            if kind != BID:
                subjects[row] = _other(events[row], kind)
        if None in subjects:
            raise DecodeFailure("no sub-object of the kind")
        return kinds, subjects

    def _decode_each(self, payloads: Sequence[bytes]) -> tuple[list[int], list[Any], list[int], list[tuple[int, str]]]:
        kinds: list[int] = []
        subjects: list[Any] = []
        rows: list[int] = []
        bad: list[tuple[int, str]] = []
        for row, payload in enumerate(payloads):
            try:
                kind, subject = self._decode_one(payload)
            except (*_ENCODED_ERRORS, DecodeFailure) as error:
                bad.append((row, str(error) or type(error).__name__))
                continue
            kinds.append(kind)
            subjects.append(subject)
            rows.append(row)
        return kinds, subjects, rows, bad

    def _decode_one(self, payload: bytes) -> tuple[int, Any]:
        """Looks only at what the record's own kind needs: another kind's sub-object may hold anything."""
        payload.decode("utf-8")
        outer = self._outer(payload)
        kind = msgspec.json.decode(outer.get("event_type", b"null"))
        if type(kind) is not int or not PERSON <= kind <= BID:
            raise DecodeFailure(f"event_type is {kind!r}, not 0, 1 or 2")
        raw = outer.get(SUBJECTS[kind])
        if raw is None:
            raise DecodeFailure(f"no {SUBJECTS[kind]}")
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


def _struct(name: str, fields: Mapping[str, type]) -> Any:
    typed = [(field, Int64 if kind is int else str) for field, kind in fields.items()]
    return msgspec.defstruct(name.capitalize(), typed, gc=False)


def _other(event: Any, kind: int) -> Any:
    if kind == PERSON:
        return event.person
    if kind == AUCTION:
        return event.auction
    raise DecodeFailure(f"event_type is {kind}, not 0, 1 or 2")


def _valid_times(name: str, kinds: Sequence[int], subjects: Sequence[Any]) -> Any:
    """Rows whose further time is valid too (auctions only)."""
    good = np.ones(len(subjects), dtype=np.bool_)
    rows = [row for row, kind in enumerate(kinds) if kind == AUCTION]
    if rows:
        good[rows] = parse_times_ms([getattr(subjects[row], name) for row in rows]) != INVALID_TIME
    return good
