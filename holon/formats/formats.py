"""Payload formats: bytes of the log to events or columns.

A payload that cannot be decoded is a reason, never an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.record_parts import RecordParts
from holon.errors import DeserializationError
from holon.formats.batch import Column
from holon.formats.record_fields import RecordFields

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


@dataclass(slots=True)
class Decoded(Generic[E_co]):
    """The outcome of a run of payloads.

    ``rows`` are the indexes of the payloads that were decoded, ascending (None: all of them); ``columns`` and
    ``events`` have one entry for each of those. ``bad`` are the others: (index, reason).

    Where a payload is an atom, which holds any number of events, ``rows`` names it once for each event, ``places`` are
    the places of these events in their atoms, ascending in each, and ``bad_events`` are events that cannot be used in
    an atom that can: (index, place, reason).
    """

    rows: NDArray[np.intp] | None
    columns: dict[str, Column] = field(default_factory=dict)
    events: Sequence[E_co] = ()
    bad: list[tuple[int, str]] = field(default_factory=list)
    places: NDArray[np.int64] | None = None
    bad_events: list[tuple[int, int, str]] = field(default_factory=list)


class Format(Protocol[E_co]):
    """Decodes payloads; an implementation is pure, and what it keeps between calls changes its speed only."""

    def decode(self, payloads: Sequence[bytes]) -> Decoded[E_co]:
        """Decode a run of payloads; never raises for their contents."""
        ...

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        ...


@runtime_checkable
class AtomFormat(Protocol):
    """The methods of a format beside ``Format`` if a payload of it is an atom: a batch of events in one record."""

    def events_in(self, payload: bytes) -> int:
        """How many events an atom holds; 1 for one that cannot be read, which is one dead letter."""
        ...

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of the one event at a place."""
        ...


@runtime_checkable
class ColumnFormat(Protocol):
    """The methods of a format beside ``Format`` that knows its columns before it reads records."""

    def check_column(self, name: str) -> None:
        """Raise ``JobError`` if there is no such column."""
        ...


@runtime_checkable
class TypedFormat(Protocol):
    """The members of a format beside ``Format`` that reads the same records as events of a type, and as columns."""

    type: Any

    def by_columns(self) -> Format[Any]:
        """The format that gives columns; ``type`` is a Struct, or a union of Structs with tags."""
        ...

    def by_events(self) -> Format[Any]:
        """The format that gives events."""
        ...


@runtime_checkable
class ColumnsRead(Protocol):
    """The method of a format beside ``Format`` that reads some columns quicker than others."""

    def columns_read(self) -> list[tuple[str, str, bool]]:
        """Name and kind of each column, and whether it is read without msgspec."""
        ...


@runtime_checkable
class WritableFormat(Protocol):
    """The methods of a format beside ``Format`` whose records are no JSON, for what writes records of a test."""

    def record_of(self, event: Any) -> bytes:
        """A record's value of an event."""
        ...

    def from_json(self, line: bytes) -> bytes:
        """A record's value of an event as JSON; the line itself if it is none."""
        ...


@runtime_checkable
class PackingFormat(Protocol):
    """The method of a format beside ``WritableFormat`` whose records hold any number of events."""

    def atoms_of(self, lines: Sequence[bytes]) -> list[bytes]:
        """Records of events as JSON, many events in each; lines that are no event stay as they are."""
        ...


@runtime_checkable
class RecordFormat(Protocol):
    """The members of a format beside ``Format`` whose events hold more of a record than its value."""

    @property
    def header_names(self) -> tuple[str, ...] | None:
        """The headers that it requests, beside keys, log times and nulls; None: it requests nothing."""
        ...

    def decode_records(
        self, payloads: Sequence[bytes], timestamps_ms: NDArray[np.int64], parts: RecordParts | None
    ) -> Decoded[Any]:
        """As ``Format.decode``, with the log's times (ms) and the parts of the same records (None: none has any)."""
        ...


def headers_requested_by(format: object) -> tuple[str, ...] | None:
    """The headers that a format requests; None where values are all that it wants of records."""
    return format.header_names if isinstance(format, RecordFormat) else None


def takes_columns(format: Format[Any]) -> bool:
    """Whether its records are read as columns where they lie; any other format takes them one by one."""
    return getattr(format, "compiled", False)


def count_events(format: Format[Any], payloads: Sequence[bytes]) -> int:
    """How many events a run of payloads holds: what accepted, filtered, late and dead add up to."""
    if not isinstance(format, AtomFormat):
        return len(payloads)
    return sum(format.events_in(payload) for payload in payloads)


def decode_each(
    payloads: Sequence[bytes], decode: Callable[[bytes], E]
) -> tuple[list[E], NDArray[np.intp] | None, list[tuple[int, str]]]:
    """Decode one by one: (events, rows or None, bad). ``decode`` may raise msgspec's errors or this room's."""
    try:
        return [decode(payload) for payload in payloads], None, []  # the common case in one C-speed loop
    except (msgspec.MsgspecError, DeserializationError, UnicodeDecodeError, RecursionError):
        pass
    events: list[E] = []
    rows: list[int] = []
    bad: list[tuple[int, str]] = []
    for index, payload in enumerate(payloads):
        try:
            events.append(decode(payload))
            rows.append(index)
        except (msgspec.MsgspecError, DeserializationError, UnicodeDecodeError, RecursionError) as error:
            bad.append((index, str(error) or type(error).__name__))
    return events, np.array(rows, dtype=np.intp), bad


def converted(values: Sequence[Any], of: Any) -> tuple[list[Any], dict[int, str]]:
    """Events of Python values, and why there is none by the place of its values; ``events`` has the others only."""
    try:
        return msgspec.convert(values, list[of]), {}
    except (msgspec.ValidationError, RecursionError):
        events, _, bad = decode_each(values, partial(msgspec.convert, type=of))
        return events, dict(bad)


class MarkedFormat(ABC, Generic[E]):
    """A format of a type whose fields may be marked; those come from the record around the value.

    ``payload_type``: what values are decoded to, which is the type where no field is marked.
    """

    def __init__(self, type: type[E] | Any) -> None:
        self.type = type
        self.record_fields: RecordFields[E] | None = RecordFields.of(type)
        self.payload_type: Any = type if self.record_fields is None else self.record_fields.payload_type

    @property
    def header_names(self) -> tuple[str, ...] | None:
        return None if self.record_fields is None else self.record_fields.header_names

    def decode(self, payloads: Sequence[bytes]) -> Decoded[E]:
        if self.record_fields is not None:
            return self.decode_records(payloads, np.full(len(payloads), -1), None)
        return self._decode_values(payloads)

    @abstractmethod
    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        """Values alone, without the marked fields."""

    def decode_records(
        self, payloads: Sequence[bytes], timestamps_ms: NDArray[np.int64], parts: RecordParts | None
    ) -> Decoded[E]:
        """As ``RecordFormat`` has it."""
        fields = self.record_fields
        assert fields is not None, "requested"
        parts = RecordParts() if parts is None else parts
        found = self._decode_values(fields.filled(payloads, parts))
        bad = list(found.bad)
        columns, without = fields.columns(timestamps_ms, parts)
        index = range(len(payloads)) if found.rows is None else found.rows.tolist()
        good = [(row, value) for row, value in zip(index, found.events, strict=True) if row not in without]
        known = {row for row, _ in bad}
        bad += [(row, reason) for row, reason in without.items() if row not in known]
        taken = {name: [column[row] for row, _ in good] for name, column in columns.items()}
        events, refused = fields.events([value for _, value in good], taken)
        bad += [(good[at][0], reason) for at, reason in refused.items()]
        kept = [row for at, (row, _) in enumerate(good) if at not in refused]
        return Decoded(np.array(kept, np.intp) if bad else None, events=events, bad=sorted(bad))


class Json(MarkedFormat[E]):
    """One JSON document a record, decoded into ``type`` and checked against it (msgspec rules, strict).

    ``Json(Bid)`` for a ``msgspec.Struct``, dataclass or TypedDict; ``Json(dict[str, Any])`` for anything. Fields of a
    Struct that are marked (``RecordKey``, ``Header``, ``LogTime``, ``Tombstone``) come from the record around it.
    """

    def __init__(self, type: type[E] | Any) -> None:
        super().__init__(type)
        self._decode = msgspec.json.Decoder(self.payload_type).decode

    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        events, rows, bad = decode_each(payloads, self._decode)
        return Decoded(rows, events=events, bad=bad)

    def describe(self) -> str:
        return f"json {self.type!r}{describe_fields(self.record_fields)}"


def describe_fields(fields: RecordFields[Any] | None) -> str:
    """The part of a format's description about marked fields."""
    return "" if fields is None else f" with {fields.describe()}"


class Raw:
    """The payload itself as the event."""

    def decode(self, payloads: Sequence[bytes]) -> Decoded[bytes]:
        return Decoded(None, events=payloads)

    def describe(self) -> str:
        return "raw"
