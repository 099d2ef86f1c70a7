"""Formats whose values are of schemas, of a registry or of one: the part that all of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.record_parts import RecordParts
from holon.columnar.structs.plan import structs_of
from holon.errors import JobError
from holon.formats.by_schema import BySchema
from holon.formats.formats import Decoded, MarkedFormat
from holon.formats.json_columns import JsonColumns, with_record_columns
from holon.formats.registry import OWN_ID, FoundSchema, KnownSchemas, RegisteredSchema, head_of

E = TypeVar("E")


class Writer(Protocol):
    """Writes values by a schema, of which ``registered`` is what a registry would have."""

    registered: RegisteredSchema

    def encode(self, event: Any) -> bytes: ...


class SchemaFormat(MarkedFormat[E]):
    """A format with a reader, which a subclass makes. ``kind`` names it in messages."""

    kind = ""
    reader: BySchema

    def __init__(
        self, type: type[E] | Any, registry: str | None, given: Mapping[int, FoundSchema] | KnownSchemas
    ) -> None:
        super().__init__(type)
        for kind in structs_of(self.payload_type):
            if kind.__struct_config__.array_like:
                raise JobError(
                    f"{kind.__name__} is array_like: it has no names for its fields, which {self.kind}'s are read by"
                )
        self.schemas: KnownSchemas | None = None
        if isinstance(given, KnownSchemas):
            self.schemas = given
        elif registry is not None:
            self.schemas = KnownSchemas(registry, given)
        elif given:
            raise JobError("schemas= are those of a registry, by their ids: give registry=, too")
        self._writers: dict[str, Writer] = {}  # none, or one: an attribute of its own would alter the fingerprint

    @property
    def name(self) -> str:
        """The type's, for messages."""
        return getattr(self.type, "__name__", repr(self.type))

    def blank(self) -> tuple[bytes, Callable[[], Any]] | None:
        """An object that stands for a record without a value, and the event of it; None where none is an event."""
        fields = self.record_fields
        if fields is None or not fields.reads_nulls:
            return None
        return fields.blank, partial(msgspec.json.decode, fields.blank, type=self.payload_type)

    @abstractmethod
    def new_writer(self, head: bytes) -> Writer:
        """Writes what this format reads, behind a header."""

    def encoder(self, id: int | None = None) -> Callable[[E], bytes]:
        """Writes events, as the ``encode`` of an ``Output``.

        ``id``: of the schema that a registry has for them; None: values are written without a header.
        """
        return self.new_writer(b"" if id is None else head_of(id)).encode

    def record_of(self, event: E) -> bytes:
        """A record's value of an event, for tests: with a registry this object then knows its schema as id 0."""
        writer = self._writers.get("")
        if writer is None:
            writer = self._writers[""] = self.new_writer(b"" if self.schemas is None else head_of(OWN_ID))
        if self.schemas is not None:
            self.schemas.learn(OWN_ID, writer.registered)
        return writer.encode(event)

    def from_json(self, line: bytes) -> bytes:
        """A record's value of an event as JSON; the line itself if it is none."""
        try:
            return self.record_of(self.parsed(line))
        except (msgspec.MsgspecError, JobError, UnicodeDecodeError, RecursionError):
            return line

    def parsed(self, line: bytes) -> Any:
        """An event of JSON."""
        return msgspec.json.decode(line, type=self.payload_type)

    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        return self.reader.decode(payloads)


class SchemaColumns(SchemaFormat[E]):
    """The same records, as the columns that ``JsonColumns`` has of the type."""

    def make_columns(self) -> None:
        """To be called once the type is known. Raises ``JobError`` if it has no columns."""
        if not structs_of(self.type):
            raise JobError(
                f"{self.kind}Columns needs a msgspec.Struct, or a union of Structs with tags, got {self.type!r}"
            )
        if self.record_fields is not None and hasattr(self.type, "__post_init__"):
            raise JobError(
                f"{self.name} checks itself (__post_init__): with marked fields, only {self.kind}({self.name})"
            )
        self._made = JsonColumns[Any](self.payload_type)

    def check_column(self, name: str) -> None:
        """Raise ``JobError`` if there is no such column."""
        if name not in {field.name for field in (() if self.record_fields is None else self.record_fields.fields)}:
            self._made.check_column(name)

    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        found = self.reader.decode(payloads)
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
