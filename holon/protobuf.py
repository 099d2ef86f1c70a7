"""The formats for Protobuf: ``from holon.protobuf import Protobuf``. They need the extra ``protobuf``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

try:
    from google.protobuf import json_format
    from google.protobuf.message import Message
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holon.protobuf needs protobuf: pip install 'holon-streams[protobuf]'", name=missing.name
    ) from missing

from holon.errors import JobError
from holon.formats.formats import describe_fields
from holon.formats.protobuf.reading import ProtobufReader
from holon.formats.protobuf.writing import ProtobufWriter, proto_of
from holon.formats.registry import KnownSchemas, RegisteredSchema
from holon.formats.schema_formats import SchemaColumns, SchemaFormat
from holon.formats.wanted import Alias

__all__ = ["Alias", "Protobuf", "ProtobufColumns", "proto_of"]

E = TypeVar("E")


def _is_message(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Message)


class _ProtobufFormat(SchemaFormat[E]):
    """The part that both formats share: message types, and how values are read."""

    kind = "Protobuf"

    def __init__(
        self,
        type: type[E] | Any,
        *,
        registry: str | None = None,
        message: type[Message] | None = None,
        schemas: Mapping[int, str] | KnownSchemas | None = None,
    ) -> None:
        given = schemas or {}
        if not isinstance(given, KnownSchemas):
            given = {id: RegisteredSchema(text, "PROTOBUF") for id, text in given.items()}
        super().__init__(type, registry, given)
        chosen: Any = type if _is_message(type) else message
        self._message = (chosen,)  # a tuple: the fingerprint has its digest
        if message is not None and not _is_message(message):
            raise JobError(f"message= is a class that protoc has made, got {message!r:.100}")
        if registry is None and self._message[0] is None:
            raise JobError(
                f"Protobuf({self.name}) needs registry=URL where records name their schema, or message= with the class "
                f"that protoc has made where they name none"
            )
        wanted = None if _is_message(type) else self.payload_type
        self.reader = ProtobufReader(wanted, self._message[0], self.schemas, self.blank())

    def _others(self) -> dict[str, Any]:
        """The arguments of a format that reads the same records."""
        found: dict[str, Any] = {} if _is_message(self.type) else {"message": self._message[0]}
        return found if self.schemas is None else found | {"registry": self.schemas.url, "schemas": self.schemas}

    def by_columns(self) -> ProtobufColumns[E]:
        """As ``TypedFormat`` has it."""
        return ProtobufColumns(self.type, **self._others())

    def by_events(self) -> Protobuf[E]:
        """As ``TypedFormat`` has it."""
        return Protobuf(self.type, **self._others())

    def parsed(self, line: bytes) -> Any:
        """An event of JSON, which messages have, too."""
        if not _is_message(self.type):
            return super().parsed(line)
        try:
            return json_format.Parse(line, self._message[0]())
        except json_format.ParseError as error:
            raise JobError(str(error)) from None

    def new_writer(self, head: bytes) -> ProtobufWriter:
        return ProtobufWriter(self.payload_type, self._message[0], head)

    def _described(self, kind: str) -> str:
        message = self._message[0]
        of = "" if message is None else f" of {message.DESCRIPTOR.full_name} {_digest(message)}"
        name = self.name if _is_message(self.type) else repr(self.type)
        headers = "" if self.schemas is None else " with headers"
        return f"{kind} {name}{of}{headers}{describe_fields(self.record_fields)}"


class Protobuf(_ProtobufFormat[E]):
    """One message a record, as an event of a type.

    ``Protobuf(click_pb2.Click)``: the message itself, of the class that protoc has made. ``Protobuf(Click,
    message=click_pb2.Click)``: a Struct, a dataclass, ``dict[str, Any]``, or any type of msgspec, whose fields are
    those of the message by their names and aliases (``Alias``).

    ``registry=URL``: records in the wire format of a schema registry, which name their schema and the message type in
    it. ``Protobuf(Click, registry=URL)`` needs no class: messages are read by their writer's schema. With a class,
    messages of another type are dead letters.

    ``schemas``: schemas of the registry by their ids, for tests. A value that does not fit is a dead letter, and so is
    one whose id the registry does not know. While the registry is out of reach, the partition waits.
    """

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint; the registry's address is none, since it may move."""
        return self._described("protobuf")


class ProtobufColumns(SchemaColumns[E], _ProtobufFormat[E]):
    """The same records, as the columns that ``JsonColumns`` has of a Struct, or of a union of Structs with tags."""

    def __init__(
        self,
        type: type[E] | Any,
        *,
        registry: str | None = None,
        message: type[Message] | None = None,
        schemas: Mapping[int, str] | KnownSchemas | None = None,
    ) -> None:
        _ProtobufFormat.__init__(self, type, registry=registry, message=message, schemas=schemas)
        self.make_columns()

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return self._described("protobuf columns")


def _digest(message: type[Message]) -> str:
    """Of the files that a message type is of: its fields have their numbers from these."""
    files, waiting = {}, [message.DESCRIPTOR.file]
    while waiting:
        file = waiting.pop()
        if file.name not in files:
            files[file.name] = file.serialized_pb
            waiting += file.dependencies
    digest = hashlib.blake2b(digest_size=8)
    for _, text in sorted(files.items()):
        digest.update(text)
    return digest.hexdigest()
