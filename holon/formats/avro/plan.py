"""The schema of a writer, made ready to be read as a type: by names and aliases of its fields, by Avro's promotions.

The plan is a schema of the same bytes. Its fields have the names of the Struct's; a value that nobody wants is read as
cheaply as can be; a logical type stays where the declared type has a value of it, and is a plain number elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
from fastavro.schema import SchemaParseException, UnknownType, parse_schema
from msgspec import inspect

from holon.errors import DeserializationError
from holon.formats.registry import RegisteredSchema
from holon.formats.wanted import BYTES, TEXTS, Wanted, fields_of, is_any, is_one_of, item_of, type_named

MAX_NODES, MAX_DEPTH = 10_000, 64
"""Of the types of a schema, each written out where it is named; a short schema could mean any number of them."""
VALUE = "value"
"""The field around a schema that is no record."""
Schema = Any
_LOGICAL: dict[str, tuple[type, ...]] = {
    "timestamp-millis": (inspect.DateTimeType,),
    "timestamp-micros": (inspect.DateTimeType,),
    "local-timestamp-millis": (inspect.DateTimeType,),
    "local-timestamp-micros": (inspect.DateTimeType,),
    "date": (inspect.DateType,),
    "time-millis": (inspect.TimeType,),
    "time-micros": (inspect.TimeType,),
    "decimal": (inspect.DecimalType, inspect.FloatType),
    "uuid": (inspect.UUIDType,),
}


@dataclasses.dataclass(frozen=True, slots=True)
class ReadPlan:
    """``schema`` reads the writer's bytes; ``type`` is made of what it gives. ``is_wrapped``: of its only value."""

    schema: Schema
    type: Any
    is_wrapped: bool


def plan_of(written: RegisteredSchema, type: Any) -> ReadPlan:
    """How records of a writer's schema are read as a type. Raises ``DeserializationError`` with the reason."""
    schema, named = parsed(written)
    is_record = isinstance(schema, dict) and schema.get("type") in ("record", "error")
    chosen = type_named(schema["name"], type) if is_record else type
    made = _Plan(named).of(schema, inspect.type_info(chosen), 0)
    if not is_record:
        made = {"type": "record", "name": "wrapped", "fields": [{"name": VALUE, "type": made}]}
    return ReadPlan(parse_schema(made), chosen, not is_record)  # else each read would parse it


def parsed(written: RegisteredSchema) -> tuple[Schema, dict[str, Schema]]:
    """A schema with the full names of all types, and the types by these. Raises ``DeserializationError``."""
    named: dict[str, Schema] = {}
    try:
        return _parse(written, named, 0), named
    except (SchemaParseException, UnknownType, msgspec.DecodeError) as error:
        raise DeserializationError(f"the schema is no Avro: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DeserializationError(f"the schema is no Avro ({error.__class__.__name__})") from None


def _parse(written: RegisteredSchema, named: dict[str, Schema], depth: int) -> Schema:
    if written.type != "AVRO":
        raise DeserializationError(f"the schema is {written.type}, not AVRO")
    if depth > MAX_DEPTH:
        raise DeserializationError(f"the schema refers to others more than {MAX_DEPTH} deep")
    for _, referred in written.references:
        _parse(referred, named, depth + 1)
    schema = msgspec.json.decode(written.text)
    if isinstance(schema, dict) and depth and schema.get("name") in named:
        return schema  # two references share it
    return parse_schema(schema, named)


class _Plan:
    """One walk over a writer's schema. ``named``: its types by full name; each is written out where it is used."""

    def __init__(self, named: Mapping[str, Schema]) -> None:
        self._named = named
        self._open: list[str] = []
        self._nodes = 0

    def of(self, node: Schema, wanted: Wanted, depth: int) -> Schema:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise DeserializationError(f"the schema has more than {MAX_NODES} types, or is deeper than {MAX_DEPTH}")
        if isinstance(node, list):
            return [self.of(branch, wanted, depth + 1) for branch in node]
        if isinstance(node, str):
            return self.of(self._named[node], wanted, depth) if node in self._named else _plain(node, {}, wanted)
        kind = node["type"]
        match kind:
            case "record" | "error":
                return self._record(node, wanted, depth)
            case "enum" | "fixed":
                found = node if kind == "enum" else _plain(kind, node, wanted)
                return {**found, "name": f"{kind}{self._nodes}"}
            case "array" | "map":
                return self._items(kind, node, wanted, depth)
            case str() if kind not in self._named:
                return _plain(kind, node, wanted)
        return self.of(kind, wanted, depth + 1)

    def _items(self, kind: str, node: Schema, wanted: Wanted, depth: int) -> Schema:
        key = "items" if kind == "array" else "values"
        found = self.of(node[key], item_of(kind, wanted), depth + 1)
        if kind == "array" and _may_be_empty(found):  # else few bytes could claim any number of them
            raise DeserializationError("the schema has an array of items that take no bytes")
        return {"type": kind, key: found}

    def _record(self, node: Schema, wanted: Wanted, depth: int) -> Schema:
        name = node["name"]
        if name in self._open:  # fastavro would go as deep as the bytes say, beyond the end of the stack
            raise DeserializationError(f"the schema is recursive: {name} has a {name} inside")
        number = self._nodes
        self._open.append(name)
        names = [field["name"] for field in node["fields"]]
        declared = fields_of(wanted, names)
        fields = []
        for field in node["fields"]:
            as_name, inner = declared(field["name"])
            fields.append({"name": as_name, "type": self.of(field["type"], inner, depth + 1)})
        self._open.pop()
        return {"type": "record", "name": f"record{number}", "fields": fields}


def _plain(kind: str, node: Mapping[str, Any], wanted: Wanted) -> Schema:
    """A type without others inside: as text or bytes, whichever is declared, and with a logical type that is."""
    logical = node.get("logicalType")
    if is_any(wanted):
        return dict(node) or kind
    if logical is not None and is_one_of(wanted, _LOGICAL.get(logical, ())):
        return dict(node)
    takes_text, takes_bytes = is_one_of(wanted, TEXTS), is_one_of(wanted, BYTES)
    if kind == "string" and not takes_text:
        kind = "bytes"  # also where nobody wants it: no text is made of it
    elif kind == "bytes" and takes_text and not takes_bytes:
        kind = "string"
    return {"type": kind, "name": "", "size": node["size"]} if kind == "fixed" else kind


def _may_be_empty(schema: Schema) -> bool:
    """Whether a value of it may take no byte."""
    if isinstance(schema, dict) and schema["type"] == "record":
        return all(_may_be_empty(field["type"]) for field in schema["fields"])
    return schema == "null" or (isinstance(schema, dict) and schema["type"] == "fixed" and schema["size"] == 0)
