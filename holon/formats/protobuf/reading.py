"""Messages as objects of a type: the package ``protobuf`` parses them, msgspec checks their fields against the type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from msgspec import inspect

from holon.errors import DeserializationError
from holon.formats.by_schema import BySchema, SchemaReader
from holon.formats.formats import converted
from holon.formats.protobuf.messages import Schema, indexes_of
from holon.formats.registry import HEADER_BYTES, KnownSchemas, UnknownSchema, head_refusal, id_of, unknown
from holon.formats.wanted import Wanted, alternatives, is_any, is_one_of, item_of, matched, type_named

Fix = Callable[[Any], Any]
ABSENT = msgspec.NODEFAULT
_WRAPPERS = tuple(
    f"google.protobuf.{name}Value" for name in "Double Float Int64 UInt64 Int32 UInt32 Bool String Bytes".split()
)
_TEXTS = (inspect.StrType, inspect.LiteralType, inspect.EnumType)


class MessageReader:
    """Reads messages of one class, behind a header of so many bytes, as objects of a type; None: as they are."""

    def __init__(self, message: type[Message], type: Any, head_bytes: int) -> None:
        self._message, self._type, self._head_bytes = (message,), type, head_bytes
        self._fix = None if type is None else _Fixes().message(message.DESCRIPTOR, inspect.type_info(type))

    def describe(self) -> str:
        """Nothing that the format does not say: it is no part of a job's fingerprint."""
        return "reader of a message type"

    def events(self, payloads: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
        """Events of values, without those that the second gives a reason for, by row."""
        parse, fix, head_bytes = self._message[0].FromString, self._fix, self._head_bytes
        found: list[Any] = []
        rows: list[int] = []
        bad: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            try:
                value = parse(payload[head_bytes:])
                found.append(value if fix is None else fix(value))
            except (DecodeError, UnicodeDecodeError, RecursionError):
                bad[row] = "the value is no message of its type: it is damaged, or of another schema"
            except (ValueError, OverflowError):
                bad[row] = "a time is beyond what a datetime or timedelta holds"
            else:
                rows.append(row)
        if fix is None:
            return found, bad
        events, refused = converted(found, self._type)
        return events, bad | {rows[at]: reason for at, reason in refused.items()}


class _Fixes:
    """Functions from what a message has to what msgspec takes; those of types that lie in themselves are one each."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Any], list[tuple[str, str, bool, Any, Fix | None]]] = {}

    def message(self, descriptor: Any, wanted: Wanted) -> Fix:
        """A message as a dict of its fields that are wanted, or as the value that a well-known type is."""
        if (known := _well_known(descriptor.full_name, wanted)) is not None:
            return known
        key = descriptor.full_name, _name_of(wanted)
        plan = self._made.get(key)
        if plan is None:
            plan = self._made[key] = []
            plan += self._plan(descriptor, wanted)

        def fixed(message: Any) -> dict[str, Any]:
            values = {}
            for name, key, has_presence, absent, fix in plan:
                if has_presence and not message.HasField(name):
                    if absent is ABSENT:
                        continue
                    values[key] = getattr(message, name) if absent is FieldDescriptor else absent
                else:
                    value = getattr(message, name)
                    values[key] = value if fix is None else fix(value)
            return values

        return fixed

    def _plan(self, descriptor: Any, wanted: Wanted) -> list[tuple[str, str, bool, Any, Fix | None]]:
        """Of each field that is read: its name, the type's name of it, and its value where a message lacks it."""
        by_name = {field.name: field for field in descriptor.fields}
        values = next((one.value_type for one in alternatives(wanted) if isinstance(one, inspect.DictType)), None)
        values = inspect.AnyType() if values is None and is_any(wanted) else values
        if values is not None:
            fields = sorted(by_name.items())
            return [(name, name, one.has_presence, ABSENT, self._field(one, values)) for name, one in fields]
        return [
            (
                name,
                field.encode_name,
                by_name[name].has_presence,
                _absent(by_name[name], field),
                self._field(by_name[name], field.type),
            )
            for name, field in matched(wanted, list(by_name)).items()
        ]

    def _field(self, field: Any, wanted: Wanted) -> Fix | None:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            value = self._value(entry.fields_by_name["value"], item_of("map", wanted))
            return dict if value is None else lambda found: {key: value(each) for key, each in found.items()}
        if field.is_repeated:
            item = self._value(field, item_of("array", wanted))
            return list if item is None else lambda found: list(map(item, found))
        return self._value(field, wanted)

    def _value(self, field: Any, wanted: Wanted) -> Fix | None:
        if field.message_type is not None:
            return self.message(field.message_type, wanted)
        if field.enum_type is not None and (is_any(wanted) or is_one_of(wanted, _TEXTS)) and not _is_number(wanted):
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return lambda number: names.get(number, number)
        return None


def _name_of(wanted: Wanted) -> Any:
    """The type that messages are read as: one that may lie in itself, or the declaration of a dict."""
    for one in alternatives(wanted):
        if isinstance(one, inspect.StructType | inspect.TypedDictType | inspect.DataclassType):
            return one.cls
    return repr(wanted)


def _is_number(wanted: Wanted) -> bool:
    """Whether an enum's value is wanted as a number."""
    for one in alternatives(wanted):
        if isinstance(one, inspect.EnumType) and not all(isinstance(each.value, str) for each in one.cls):
            return True
        if isinstance(one, inspect.LiteralType) and not all(isinstance(value, str) for value in one.values):
            return True
    return is_one_of(wanted, (inspect.IntType,))


def _absent(field: Any, declared: Any) -> Any:
    """The value where a message lacks the field: the type's default, else None if it may be, else Protobuf's."""
    if not declared.required:
        return ABSENT
    if is_one_of(declared.type, (inspect.NoneType,)):
        return None
    return ABSENT if field.message_type is not None else FieldDescriptor


def _well_known(name: str, wanted: Wanted) -> Fix | None:
    if name == "google.protobuf.Timestamp" and (is_any(wanted) or is_one_of(wanted, (inspect.DateTimeType,))):
        return lambda value: value.ToDatetime(tzinfo=UTC)
    if name == "google.protobuf.Duration" and (is_any(wanted) or is_one_of(wanted, (inspect.TimeDeltaType,))):
        return lambda value: value.ToTimedelta()
    if name in _WRAPPERS:
        return lambda value: value.value
    return None


class ProtobufReader(BySchema):
    """Reads messages: of one class, or of the class that each schema has. Its state changes its speed only."""

    def __init__(
        self,
        type: Any,
        message: type[Message] | None,
        schemas: KnownSchemas | None,
        blank: tuple[bytes, Callable[[], Any]] | None,
    ) -> None:
        super().__init__(0 if schemas is None else HEADER_BYTES + 1, blank)
        self._type, self._message, self._schemas = type, (message,), schemas
        self._by_header: dict[bytes, SchemaReader | str] = {}
        if schemas is None:
            assert message is not None
            self._readers[b""] = MessageReader(message, type, 0)

    def _reader(self, payload: bytes) -> SchemaReader | str:
        refused = head_refusal(payload)
        if refused is not None:
            return refused
        id = id_of(payload)
        assert self._schemas is not None
        written = self._schemas.get(id)
        if isinstance(written, UnknownSchema):
            return unknown(id)
        try:
            indexes, begin = indexes_of(payload)
        except DeserializationError as error:
            return str(error)
        header = payload[:begin]
        found = self._by_header.get(header)
        if found is None:
            try:
                found = self._planned(Schema(written), indexes, begin)
            except DeserializationError as error:
                found = f"schema {id}: {error}"
            self._by_header[header] = found
            if begin == HEADER_BYTES + 1:  # the usual header: found by its bytes from now on
                self._readers[header] = found
        return found

    def _planned(self, schema: Schema, indexes: Sequence[int], begin: int) -> SchemaReader:
        name = schema.name_at(indexes)
        message = self._message[0]
        if message is None:
            return MessageReader(schema.message(name), type_named(name, self._type), begin)
        if name != message.DESCRIPTOR.full_name:
            raise DeserializationError(f"the message is a {name}, not a {message.DESCRIPTOR.full_name}")
        return MessageReader(message, self._type, begin)
