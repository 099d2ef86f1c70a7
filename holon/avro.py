"""The formats for Avro: ``from holon.avro import Avro, AvroColumns``. They need the extra ``avro``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

try:
    import fastavro  # noqa: F401  # the error is to name the extra
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holon.avro needs fastavro: pip install 'holon-streams[avro]'", name=missing.name
    ) from missing

from holon.errors import DeserializationError, JobError
from holon.formats.avro.reading import AvroReader
from holon.formats.avro.writing import AvroWriter, schema_of
from holon.formats.formats import describe_fields
from holon.formats.registry import KnownSchemas, RegisteredSchema
from holon.formats.schema_formats import SchemaColumns, SchemaFormat
from holon.formats.wanted import Alias

__all__ = ["Alias", "Avro", "AvroColumns", "schema_of"]

E = TypeVar("E")
AvroSchema = str | Mapping[str, Any] | Sequence[Any]
"""Avro's JSON, as text or as what it means."""


class _AvroFormat(SchemaFormat[E]):
    """The part that both formats share: the schemas of writers, and how values are read."""

    kind = "Avro"

    def __init__(
        self,
        type: type[E] | Any,
        *,
        registry: str | None = None,
        schema: AvroSchema | None = None,
        schemas: Mapping[int, AvroSchema] | KnownSchemas | None = None,
    ) -> None:
        given = schemas or {}
        if not isinstance(given, KnownSchemas):
            given = {id: RegisteredSchema(_text(one)) for id, one in given.items()}
        if (registry is None) == (schema is None):
            raise JobError(
                "Avro needs registry=URL where records name their schema, or schema=SCHEMA where all of them are of "
                "one and name none; one of the two"
            )
        super().__init__(type, registry, given)
        self._schema = None if schema is None else RegisteredSchema(_text(schema))
        try:
            self.reader = AvroReader(self.payload_type, self.schemas, self._schema, self.blank())
        except DeserializationError as error:
            raise JobError(f"schema= of Avro({self.name}): {error}") from None

    def _others(self) -> dict[str, Any]:
        """The arguments of a format that reads the same records."""
        if self.schemas is not None:
            return {"registry": self.schemas.url, "schemas": self.schemas}
        assert self._schema is not None
        return {"schema": self._schema.text}

    def by_columns(self) -> AvroColumns[E]:
        """As ``TypedFormat`` has it."""
        return AvroColumns(self.type, **self._others())

    def by_events(self) -> Avro[E]:
        """As ``TypedFormat`` has it."""
        return Avro(self.type, **self._others())

    def new_writer(self, head: bytes) -> AvroWriter:
        return AvroWriter(schema_of(self.payload_type) if self._schema is None else self._schema.text, head)

    def _described(self, kind: str) -> str:
        schema = "" if self._schema is None else f" of {self._schema.text}"
        return f"{kind} {self.type!r}{schema}{describe_fields(self.record_fields)}"


class Avro(_AvroFormat[E]):
    """One Avro value a record, as an event of a type: a Struct, a dataclass, ``dict[str, Any]``, or any of msgspec.

    ``Avro(Click, registry=URL)``: records in the wire format of a schema registry. Each names the schema of
    its writer, which is read as the type. Fields are found by their names and aliases (``Alias``). A field that is not
    there has its default. ``Avro(Click, schema=SCHEMA)``: all records are of one schema, and name none.

    ``schemas``: schemas of the registry by their ids, for tests. A value that does not fit is a dead letter, and so is
    one whose id the registry does not know. While the registry is out of reach, the partition waits.

    Of several Structs, ``Avro(Click | View, registry=URL)``, a record's is the one with the schema's name as tag or
    name.
    """

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint; the registry's address is none, since it may move."""
        return self._described("avro")


class AvroColumns(SchemaColumns[E], _AvroFormat[E]):
    """The same records, as the columns that ``JsonColumns`` has of a Struct, or of a union of Structs with tags."""

    def __init__(
        self,
        type: type[E] | Any,
        *,
        registry: str | None = None,
        schema: AvroSchema | None = None,
        schemas: Mapping[int, AvroSchema] | KnownSchemas | None = None,
    ) -> None:
        _AvroFormat.__init__(self, type, registry=registry, schema=schema, schemas=schemas)
        self.make_columns()

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return self._described("avro columns")


def _text(schema: AvroSchema) -> str:
    """A schema as canonical JSON."""
    try:
        found = msgspec.json.decode(schema) if isinstance(schema, str) and schema[:1] in '{["' else schema
        return msgspec.json.encode(found).decode()
    except (msgspec.MsgspecError, TypeError) as error:
        raise JobError(f"a schema is Avro's JSON, as text or as dicts and lists: {error}") from None
