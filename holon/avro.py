"""The formats for Avro: ``from holon.avro import Avro, AvroColumns``. They need the extra ``avro``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

try:
    import fastavro  # noqa: F401  # the error is to name the extra
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holon.avro needs fastavro: pip install 'holon-streams[avro]'", name=missing.name
    ) from missing

from holon.columnar.record_parts import RecordParts
from holon.columnar.structs.plan import structs_of
from holon.errors import DeserializationError, JobError
from holon.formats.avro.plan import Alias
from holon.formats.avro.reading import AvroReader
from holon.formats.avro.writing import AvroWriter, schema_of
from holon.formats.formats import Decoded, MarkedFormat, describe_fields
from holon.formats.json_columns import JsonColumns, with_record_columns
from holon.formats.registry import KnownSchemas, RegisteredSchema, head_of

__all__ = ["Alias", "Avro", "AvroColumns", "schema_of"]

E = TypeVar("E")
AvroSchema = str | Mapping[str, Any] | Sequence[Any]
"""Avro's JSON, as text or as what it means."""
OWN_ID = 0
"""The id of values that a test writes: no registry gives it to a schema."""


class _AvroFormat(MarkedFormat[E]):
    """The part that both formats share: the schemas of writers, and how values are read."""

    def __init__(
        self,
        type: type[E] | Any,
        *,
        registry: str | None = None,
        schema: AvroSchema | None = None,
        schemas: Mapping[int, AvroSchema] | KnownSchemas | None = None,
    ) -> None:
        super().__init__(type)
        for kind in structs_of(self.payload_type):
            if kind.__struct_config__.array_like:
                raise JobError(
                    f"{kind.__name__} is array_like: it has no names for its fields, which Avro's are read by"
                )
        if (registry is None) == (schema is None):
            raise JobError(
                "Avro needs registry=URL where records name their schema, or schema=SCHEMA where all of them are of "
                "one and name none; one of the two"
            )
        self.schemas: KnownSchemas | None = None
        self._schema = None if schema is None else RegisteredSchema(_text(schema))
        if isinstance(schemas, KnownSchemas):
            self.schemas = schemas
        elif registry is not None:
            given = {id: RegisteredSchema(_text(one)) for id, one in (schemas or {}).items()}
            self.schemas = KnownSchemas(registry, given)
        elif schemas:
            raise JobError("schemas= are those of a registry, by their ids; schema= is the only one")
        fields, blank = self.record_fields, None
        if fields is not None and fields.reads_nulls:
            blank = fields.blank, partial(msgspec.json.decode, fields.blank, type=self.payload_type)
        try:
            self._reader = AvroReader(self.payload_type, self.schemas, self._schema, blank)
        except DeserializationError as error:
            raise JobError(f"schema= of Avro({self._name}): {error}") from None
        self._writers: dict[str, AvroWriter] = {}  # none, or one: an attribute of its own would alter the fingerprint

    @property
    def _name(self) -> str:
        return getattr(self.type, "__name__", repr(self.type))

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

    def encode(self, event: E) -> bytes:
        """A record's value of an event, for tests: by the schema of its type, which this object then knows as id 0."""
        writer = self._writers.get("")
        if writer is None:
            text = schema_of(self.payload_type) if self._schema is None else self._schema.text
            writer = self._writers[""] = AvroWriter(text, head_of(OWN_ID) if self._schema is None else b"")
        if self.schemas is not None:
            self.schemas.learn(OWN_ID, RegisteredSchema(writer.text))
        return writer.encode(event)

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

    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        return self._reader.decode(payloads)

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint; the registry's address is none, since it may move."""
        return self._described("avro")


class AvroColumns(_AvroFormat[E]):
    """The same records, as the columns that ``JsonColumns`` has of a Struct, or of a union of Structs with tags."""

    def __init__(
        self,
        type: type[E] | Any,
        *,
        registry: str | None = None,
        schema: AvroSchema | None = None,
        schemas: Mapping[int, AvroSchema] | KnownSchemas | None = None,
    ) -> None:
        if not structs_of(type):
            raise JobError(f"AvroColumns needs a msgspec.Struct, or a union of Structs with tags, got {type!r}")
        super().__init__(type, registry=registry, schema=schema, schemas=schemas)
        if self.record_fields is not None and hasattr(type, "__post_init__"):
            raise JobError(f"{self._name} checks itself (__post_init__): with marked fields, only Avro({self._name})")
        self._made = JsonColumns[Any](self.payload_type)

    def check_column(self, name: str) -> None:
        """Raise ``JobError`` if there is no such column."""
        if name not in {field.name for field in (() if self.record_fields is None else self.record_fields.fields)}:
            self._made.check_column(name)

    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        found = self._reader.decode(payloads)
        columns, large = self._made.columns_of(list(found.events))
        if not large:
            return Decoded(found.rows, columns=columns, bad=found.bad)
        rows = np.arange(len(payloads)) if found.rows is None else found.rows
        bad = sorted([*found.bad, *((int(rows[at]), reason) for at, reason in large.items())])
        return Decoded(np.delete(rows, list(large)), columns=columns, bad=bad)

    def decode_records(
        self, payloads: Sequence[bytes], timestamps_ms: NDArray[np.int64], parts: RecordParts | None
    ) -> Decoded[E]:
        fields = self.record_fields
        assert fields is not None, "requested"
        parts = RecordParts() if parts is None else parts
        found = self._decode_values(fields.filled(payloads, parts))
        return with_record_columns(fields, found, len(payloads), timestamps_ms, parts)

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
