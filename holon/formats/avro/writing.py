"""Avro values of events: for the inputs of tests, and for outputs that readers of Avro take."""

from __future__ import annotations

import datetime
import decimal
from io import BytesIO
from typing import Any

import fastavro
import msgspec
from msgspec import inspect

from holon.errors import JobError
from holon.formats.registry import RegisteredSchema

_PLAIN: dict[type, Any] = {
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "long",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
    inspect.ByteArrayType: "bytes",
    inspect.DateTimeType: {"type": "long", "logicalType": "timestamp-micros"},
    inspect.DateType: {"type": "int", "logicalType": "date"},
    inspect.TimeType: {"type": "long", "logicalType": "time-micros"},
    inspect.UUIDType: {"type": "string", "logicalType": "uuid"},
    inspect.DecimalType: "string",
    inspect.TimeDeltaType: "string",
}
_ITEMS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_AS_THEY_ARE = (bytes, bytearray, datetime.datetime, datetime.date, datetime.time)


def schema_of(type: Any) -> str:
    """Avro's schema of a type, as JSON: to be registered, or to write by. Decimals and timedeltas are texts in it.

    Raises ``JobError`` where Avro has no such type.
    """
    return msgspec.json.encode(_schema(inspect.type_info(type), set())).decode()


def _schema(info: inspect.Type, known: set[str]) -> Any:
    if isinstance(info, inspect.Metadata):
        return _schema(info.type, known)
    if isinstance(info, inspect.UnionType):
        return [
            _schema(one, known) for one in sorted(info.types, key=lambda one: not isinstance(one, inspect.NoneType))
        ]
    if isinstance(info, inspect.EnumType):
        return _schema_of_values([each.value for each in info.cls])
    if isinstance(info, inspect.LiteralType):
        return _schema_of_values(info.values)
    if isinstance(info, _ITEMS):
        return {"type": "array", "items": _schema(info.item_type, known)}
    if isinstance(info, inspect.DictType) and isinstance(info.key_type, inspect.StrType):
        return {"type": "map", "values": _schema(info.value_type, known)}
    if isinstance(info, inspect.StructType | inspect.TypedDictType | inspect.DataclassType):
        return _record(info, known)
    found = _PLAIN.get(type(info))
    if found is None:
        raise JobError(f"Avro has no type for {info!r:.200}: declare another one, or give schema=")
    return found


def _schema_of_values(values: Any) -> str:
    """Of the values of an enum or a Literal."""
    if all(isinstance(value, str) for value in values):
        return "string"
    return "long"


def _record(info: Any, known: set[str]) -> Any:
    name = info.cls.__name__
    if name in known:
        return name
    known.add(name)
    fields = [{"name": field.encode_name, "type": _schema(field.type, known)} for field in info.fields]
    return {"type": "record", "name": name, "fields": fields}


class AvroWriter:
    """Writes events by one schema, behind a header."""

    def __init__(self, text: str, head: bytes) -> None:
        self.text, self._head = text, head
        self.registered = RegisteredSchema(text)
        self._schema = fastavro.parse_schema(msgspec.json.decode(text))

    def describe(self) -> str:
        """For the fingerprint of a job whose output it writes."""
        return f"writer of {self.text} behind {self._head.hex()}"

    def encode(self, event: Any) -> bytes:
        """The value of an event. Raises ``JobError`` if the schema does not take it."""
        out = BytesIO()
        out.write(self._head)
        value = msgspec.to_builtins(event, builtin_types=_AS_THEY_ARE, enc_hook=_plain)
        try:
            fastavro.schemaless_writer(out, self._schema, value)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
            raise JobError(f"the schema does not take {event!r:.200}: {error}") from None
        return out.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise NotImplementedError(type(value).__name__)
