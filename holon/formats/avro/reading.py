"""Avro values to objects: fastavro reads what a plan says, msgspec checks it against the type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import numpy as np

from holon.errors import DeserializationError
from holon.formats.avro.plan import VALUE, ReadPlan, plan_of
from holon.formats.formats import Decoded, converted
from holon.formats.registry import (
    HEADER_BYTES,
    KnownSchemas,
    RegisteredSchema,
    UnknownSchema,
    head_refusal,
    id_of,
)

_DAMAGED = (EOFError, LookupError, ValueError, ArithmeticError, TypeError, MemoryError, struct.error)
"""Exceptions of fastavro at bytes that are no value of the schema. Its texts hold addresses of objects."""


class SchemaReader:
    """Reads values of one writer's schema, of which the first bytes are a header."""

    def __init__(self, plan: ReadPlan, header_bytes: int) -> None:
        self._plan, self._header_bytes = plan, header_bytes

    def describe(self) -> str:
        """Nothing that the format does not say: it is no part of a job's fingerprint."""
        return "reader of a schema"

    def values(self, payloads: Sequence[bytes], bad: dict[int, str]) -> tuple[list[Any], list[int]]:
        """The values as plain objects, with their rows; adds to ``bad`` why there is none."""
        schema, header_bytes, read = self._plan.schema, self._header_bytes, fastavro.schemaless_reader
        found: list[Any] = []
        rows: list[int] = []
        for row, payload in enumerate(payloads):
            source = BytesIO(payload)
            source.seek(header_bytes)
            try:
                value = read(source, schema, None)
            except _DAMAGED as error:
                bad[row] = _reason(error)
                continue
            if source.tell() != len(payload):
                bad[row] = f"{len(payload) - source.tell()} bytes are left behind the value: it is of another schema"
                continue
            found.append(value)
            rows.append(row)
        return [value[VALUE] for value in found] if self._plan.is_wrapped else found, rows

    def events(self, payloads: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
        """Events of the type, without those that ``bad`` gives a reason for, by row."""
        bad: dict[int, str] = {}
        values, rows = self.values(payloads, bad)
        events, refused = converted(values, self._plan.type)
        return events, bad | {rows[at]: reason for at, reason in refused.items()}


class AvroReader:
    """Reads values of a type, each of the schema that it names, or all of one. Its state changes its speed only.

    ``blank``: an object, and the event of it, that stand for a record without a value.
    """

    def __init__(
        self,
        type: Any,
        schemas: KnownSchemas | None,
        schema: RegisteredSchema | None,
        blank: tuple[bytes, Callable[[], Any]] | None,
    ) -> None:
        self._type, self._schemas, self._blank = type, schemas, blank
        self._only = None if schema is None else SchemaReader(plan_of(schema, type), 0)
        self._readers: dict[bytes, SchemaReader | str] = {}

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run; never raises for contents."""
        groups = self._groups(payloads)
        if len(groups) == 1 and isinstance(reader := next(iter(groups)), SchemaReader):
            events, bad = reader.events(payloads)
            rows = [row for row in range(len(payloads)) if row not in bad] if bad else []
        else:
            by_row, bad = self._mixed(payloads, groups)
            rows = sorted(by_row)
            events = [by_row[row] for row in rows]
        return Decoded(np.array(rows, np.intp) if bad else None, events=events, bad=sorted(bad.items()))

    def describe(self) -> str:
        """Nothing that the format does not say: what it has met is no part of a job's fingerprint."""
        return "reader of schemas"

    def _mixed(
        self, payloads: Sequence[bytes], groups: Mapping[SchemaReader | str | None, list[int]]
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Events by row, and the other rows: each schema's records at once."""
        by_row: dict[int, Any] = {}
        bad: dict[int, str] = {}
        for reader, rows in groups.items():
            if isinstance(reader, str):
                bad |= dict.fromkeys(rows, reader)
            elif reader is None:
                assert self._blank is not None
                by_row |= {row: self._blank[1]() for row in rows}
            else:
                events, refused = reader.events([payloads[row] for row in rows])
                good = [row for at, row in enumerate(rows) if at not in refused] if refused else rows
                by_row |= dict(zip(good, events, strict=True))
                bad |= {rows[at]: reason for at, reason in refused.items()}
        return by_row, bad

    def _groups(self, payloads: Sequence[bytes]) -> dict[SchemaReader | str | None, list[int]]:
        """The rows by how they are read, or why they are not; None: they have no value."""
        if self._only is not None and self._blank is None:
            return {self._only: []}
        readers = self._readers
        groups: dict[SchemaReader | str | None, list[int]] = {}
        for row, payload in enumerate(payloads):
            reader = readers.get(payload[:HEADER_BYTES]) or self._reader(payload)
            found = groups.get(reader)
            if found is None:
                groups[reader] = [row]
            else:
                found.append(row)
        return groups

    def _reader(self, payload: bytes) -> SchemaReader | str | None:
        if self._blank is not None and payload is self._blank[0]:
            return None
        if self._only is not None:
            return self._only
        refused = head_refusal(payload)
        if refused is not None:
            return refused
        assert self._schemas is not None
        head = payload[:HEADER_BYTES]
        self._readers[head] = found = self._planned(id_of(head), self._schemas)
        return found

    def _planned(self, id: int, schemas: KnownSchemas) -> SchemaReader | str:
        written = schemas.get(id)
        if isinstance(written, UnknownSchema):
            return f"the registry has no schema {id}"
        try:
            return SchemaReader(plan_of(written, self._type), HEADER_BYTES)
        except DeserializationError as error:
            return f"schema {id}: {error}"


def _reason(error: BaseException) -> str:
    match error:
        case UnicodeDecodeError():
            return "a text is not UTF-8"
        case EOFError():
            return "the value ends too early: it is damaged, or of another schema"
        case LookupError():
            return "there is no such branch of a union or symbol of an enum: it is damaged, or of another schema"
        case _:
            return f"a number is beyond what its type holds ({type(error).__name__})"
