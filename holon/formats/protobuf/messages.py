"""Message types of schemas: from the registry's text, and which of a schema's types a value is of."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from holon.errors import DeserializationError
from holon.formats.protobuf.proto_text import names_in, parse_proto, resolve
from holon.formats.registry import HEADER_BYTES, RegisteredSchema

WELL_KNOWN: dict[str, Any] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
}
_OPTIONS = ("google/protobuf/descriptor.proto", "confluent/")
"""Files that only give options, which are passed over."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{8,}={0,2}")
MAX_FILES, MAX_INDEXES = 256, 32


class Schema:
    """The files of a registered schema, and its message types. Raises ``DeserializationError`` with the reason."""

    def __init__(self, written: RegisteredSchema) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._known: dict[str, bool] = {}
        self._files: dict[str, bool] = {}
        self._file = self._add(written, "value.proto", 0)

    def _add(self, written: RegisteredSchema, name: str, depth: int) -> descriptor_pb2.FileDescriptorProto:
        if written.type != "PROTOBUF":
            raise DeserializationError(f"the schema is {written.type}, not PROTOBUF")
        if len(self._files) > MAX_FILES or depth > MAX_INDEXES:
            raise DeserializationError(f"the schema imports more than {MAX_FILES} files, or deeper than {MAX_INDEXES}")
        file = _file(written.text, name)
        self._files[name] = True
        references = dict(written.references)
        kept = [path for path in file.dependency if not path.startswith(_OPTIONS)]
        del file.dependency[:]
        for path in kept:
            file.dependency.append(path)
            if path in self._files:
                continue
            if path in WELL_KNOWN:
                self._files[path] = True
                found = descriptor_pb2.FileDescriptorProto.FromString(WELL_KNOWN[path].serialized_pb)
                self._build(found)
            elif path in references:
                self._add(references[path], path, depth + 1)
            else:
                raise DeserializationError(f"the schema imports {path!r:.100}, and has no such reference")
        self._known |= names_in(file)
        resolve(file, self._known)
        self._build(file)
        return file

    def _build(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        try:
            self._pool.Add(file)
            self._pool.FindFileByName(file.name)
        except (TypeError, KeyError, ValueError) as error:
            raise DeserializationError(f"the schema is no Protobuf: {error}") from None
        self._known |= names_in(file)

    def name_at(self, indexes: Sequence[int]) -> str:
        """The full name of the message type that a value's indexes mean."""
        types: Any = self._file.message_type
        names = [self._file.package] if self._file.package else []
        for index in indexes:
            types = [one for one in types if not one.options.map_entry]  # as Confluent's own registry counts
            if not 0 <= index < len(types):
                raise DeserializationError(f"the schema has no message type {list(indexes)}")
            names.append(types[index].name)
            types = types[index].nested_type
        return ".".join(names)

    def message(self, name: str) -> Any:
        """The class of a message type."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))


def _file(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    """The file of a schema: of its text, or of a descriptor in base64, which some writers register."""
    if not _BASE64.fullmatch(text.strip()):
        return parse_proto(text, name)
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(binascii.a2b_base64(text))
    except (binascii.Error, DecodeError) as error:
        raise DeserializationError(f"the schema is no Protobuf: {error}") from None
    found.name = name
    return found


def indexes_of(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes behind a header, outermost type first, and where the message begins."""
    at = HEADER_BYTES
    count, at = _zigzag(payload, at)
    if not 0 <= count <= MAX_INDEXES:
        raise DeserializationError("the header has no indexes of a message type")
    found = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        found.append(index)
    return (tuple(found) or (0,)), at


def header_indexes(indexes: Sequence[int]) -> bytes:
    """Indexes as a header has them; those of a schema's first type are a single 0."""
    numbers = [0] if tuple(indexes) == (0,) else [len(indexes), *indexes]
    return b"".join(_varint(number << 1) for number in numbers)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(payload) and shift < 35:
        byte = payload[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise DeserializationError("the header has no indexes of a message type")
