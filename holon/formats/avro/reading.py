"""Avro values to objects: fastavro reads what a plan says, msgspec checks it against the type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import fastavro

from holon.errors import DeserializationError
from holon.formats.avro.plan import VALUE, ReadPlan, plan_of
from holon.formats.by_schema import BySchema, SchemaReader
from holon.formats.formats import converted
from holon.formats.registry import (
    HEADER_BYTES,
    KnownSchemas,
    RegisteredSchema,
    UnknownSchema,
    head_refusal,
    id_of,
    unknown,
)

_DAMAGED = (EOFError, LookupError, ValueError, ArithmeticError, TypeError, MemoryError, struct.error)
"""Exceptions of fastavro at bytes that are no value of the schema. Its texts hold addresses of objects."""


class AvroSchemaReader:
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


class AvroReader(BySchema):
    """Reads values of a type, each of the schema that it names, or all of one. Its state changes its speed only."""

    def __init__(
        self,
        type: Any,
        schemas: KnownSchemas | None,
        schema: RegisteredSchema | None,
        blank: tuple[bytes, Callable[[], Any]] | None,
    ) -> None:
        super().__init__(0 if schemas is None else HEADER_BYTES, blank)
        self._type, self._schemas = type, schemas
        if schema is not None:
            self._readers[b""] = AvroSchemaReader(plan_of(schema, type), 0)

    def _reader(self, payload: bytes) -> SchemaReader | str:
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
            return unknown(id)
        try:
            return AvroSchemaReader(plan_of(written, self._type), HEADER_BYTES)
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
