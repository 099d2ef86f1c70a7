"""Values of Protobuf for the inputs of tests: of messages, and of objects by a schema that is made of their type."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
from google.protobuf.message import Message
from msgspec import inspect

from holon.errors import JobError
from holon.formats.protobuf.messages import Schema, header_indexes
from holon.formats.registry import RegisteredSchema
from holon.formats.wanted import alternatives

_PLAIN: dict[type, str] = {
    inspect.BoolType: "bool",
    inspect.IntType: "int64",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
    inspect.DateTimeType: "google.protobuf.Timestamp",
    inspect.TimeDeltaType: "google.protobuf.Duration",
    inspect.EnumType: "string",
    inspect.LiteralType: "string",
    inspect.UUIDType: "string",
    inspect.DecimalType: "string",
}
_ITEMS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_IMPORTS = "".join(f'import "google/protobuf/{name}.proto";\n' for name in ("timestamp", "duration"))


def proto_of(type: Any) -> str:
    """Protobuf's schema of a Struct, as text: to be registered. Fields are numbered in their order.

    Raises ``JobError`` where Protobuf has no such type.
    """
    messages: dict[str, str] = {}
    _add(inspect.type_info(type), messages)
    return f'syntax = "proto3";\n{_IMPORTS}{"".join(messages.values())}'


def _add(info: Any, messages: dict[str, str]) -> str:
    """The name of the message of a Struct, which is added before those that it has inside."""
    if not isinstance(info, inspect.StructType | inspect.TypedDictType | inspect.DataclassType):
        raise JobError(f"Protobuf has messages alone, which are Structs here, got {info!r:.100}")
    name = info.cls.__name__
    if name not in messages:
        messages[name] = ""
        fields = [f"  {_field(one.type, one.encode_name, messages)} = {n};\n" for n, one in enumerate(info.fields, 1)]
        messages[name] = f"message {name} {{\n{''.join(fields)}}}\n"
    return name


def _field(info: inspect.Type, name: str, messages: dict[str, str]) -> str:
    options = [one for one in alternatives(info) if not isinstance(one, inspect.NoneType)]
    may_lack = len(options) < len(alternatives(info))
    if len(options) != 1:
        raise JobError(f"Protobuf has no type for the field {name!r}: declare one type, also with | None")
    (one,) = options
    if isinstance(one, _ITEMS):
        return f"repeated {_value(one.item_type, messages)} {name}"
    if isinstance(one, inspect.DictType):
        return f"map<{_value(one.key_type, messages)}, {_value(one.value_type, messages)}> {name}"
    return f"{'optional ' if may_lack else ''}{_value(one, messages)} {name}"


def _value(info: inspect.Type, messages: dict[str, str]) -> str:
    (one, *more) = alternatives(info)
    if more or isinstance(one, (*_ITEMS, inspect.DictType)):
        raise JobError(f"Protobuf has no lists or dicts of {info!r:.100}")
    return _PLAIN.get(type(one)) or _add(one, messages)


def schema_naming(message: type[Message]) -> str:
    """A schema that has a message type at its place, and no field: enough to know it by its name."""
    package, places = message.DESCRIPTOR.file.package, _places(message)
    text = f'syntax = "proto3"; {f"package {package}; " if package else ""}'
    for name, index in places:
        text += "".join(f"message Other{number} {{ }} " for number in range(index)) + f"message {name} {{ "
    return text + "} " * len(places)


def _places(message: type[Message]) -> list[tuple[str, int]]:
    """Name and index of a message type and of those that it is inside of, the outermost first."""
    descriptor, found = message.DESCRIPTOR, list[tuple[str, int]]()
    while descriptor is not None:
        outer = descriptor.containing_type
        beside = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
        names = [one.name for one in beside if not one.GetOptions().map_entry]
        found.insert(0, (descriptor.name, names.index(descriptor.name)))
        descriptor = outer
    return found


class ProtobufWriter:
    """Writes messages, or objects of a type as messages; ``text`` is a schema that a reader of them needs."""

    def __init__(self, type: Any, message: type[Message] | None, head: bytes) -> None:
        self._message = (message,)
        self._classes: dict[str, Any] = {}
        if message is None:
            self.text = proto_of(type)
            schema = Schema(RegisteredSchema(self.text, "PROTOBUF"))
            self._classes[""] = schema.message(schema.name_at([0]))
        else:
            self.text = schema_naming(message)
            self._classes[""] = message
        self.registered = RegisteredSchema(self.text, "PROTOBUF")
        self._head = head + header_indexes([index for _, index in _places(self._classes[""])]) if head else b""

    def describe(self) -> str:
        """For the fingerprint of a job whose output it writes."""
        return f"writer of {self.text} behind {self._head.hex()}"

    def encode(self, event: Any) -> bytes:
        """The value of an event. Raises ``JobError`` if the message type does not take it."""
        if isinstance(event, Message):
            return self._head + event.SerializeToString(deterministic=True)
        kept = (bytes, datetime.datetime, datetime.timedelta)
        values = msgspec.to_builtins(event, builtin_types=kept)
        try:
            made = self._classes[""](**{name: value for name, value in values.items() if value is not None})
        except (ValueError, TypeError) as error:
            raise JobError(f"the message type does not take {event!r:.200}: {error}") from None
        return self._head + made.SerializeToString(deterministic=True)
