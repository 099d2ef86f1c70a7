"""The shape of a type as a value: the form of its bytes, so that another process can judge whether stored ones fit.

Names of classes are for people; shapes are compared (``fitting.py``). A type is described as msgspec decodes it.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
from msgspec import inspect as mi

_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
_SHORT = 1_000
_RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)


class TypeShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """``kind``: ``int``, ``list``, ``dict``, ``record`` (a map of fields), ``row`` (an array of fields) and so on.

    ``arguments`` are those of a container or union; ``values`` those of an enum or literal, as text; ``limits`` are the
    bounds of values. ``closed``: fields that are not known are an error. ``sparse``: a field that has its default is
    not stored.
    """

    kind: str
    name: str = ""
    arguments: tuple[TypeShape, ...] = ()
    fields: tuple[FieldShape, ...] = ()
    values: tuple[str, ...] = ()
    limits: str = ""
    tag: str = ""
    closed: bool = False
    sparse: bool = False

    def __str__(self) -> str:
        if self.kind == "union":
            return " | ".join(str(each) for each in self.arguments)
        inner = ", ".join([*(str(each) for each in self.arguments), *self.values])
        return (self.name or self.kind) + (f"[{inner}]" if inner else "") + (f" {self.limits}" if self.limits else "")


class FieldShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field under the name that it is stored by. ``default`` is text; None: it must be there unless ``optional``."""

    name: str
    shape: TypeShape
    default: str | None = None
    optional: bool = False


ANY = TypeShape("any")


def shape_of(type_: Any) -> TypeShape:
    """Of anything that msgspec decodes; of what it does not know, the name alone."""
    try:
        return _shape(mi.type_info(type_), ())
    except (TypeError, NameError, AttributeError):
        return TypeShape("custom", name=getattr(type_, "__qualname__", str(type_)))


def plain(value: Any) -> str:
    """A default or an initial value as text."""
    try:
        text = msgspec.json.encode(value, order="deterministic", enc_hook=_named)
        return text.decode() if len(text) <= _SHORT else hashlib.blake2b(text, digest_size=16).hexdigest()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return type(value).__qualname__


def _named(value: Any) -> str:
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    return type(value).__qualname__


def _shape(info: mi.Type, within: tuple[Any, ...]) -> TypeShape:
    if isinstance(info, _RECORDS):
        return _record(info, within)
    match info:
        case mi.UnionType(types):
            return TypeShape("union", arguments=_shapes(types, within))
        case mi.DictType() | mi.FrozenDictType():
            return TypeShape("dict", arguments=_shapes((info.key_type, info.value_type), within), limits=_limits(info))
        case mi.TupleType(types):
            return TypeShape("tuple", arguments=_shapes(types, within))
        case mi.EnumType(cls):
            return TypeShape("enum", cls.__name__, values=tuple(sorted(plain(each.value) for each in cls)))
        case mi.LiteralType(values):
            return TypeShape("literal", "Literal", values=tuple(sorted(plain(each) for each in values)))
        case mi.CustomType(cls):
            return TypeShape("custom", name=cls.__qualname__)
        case mi.Metadata(inner):
            return _shape(inner, within)
    if isinstance(info, mi.CollectionType):
        name = type(info).__name__.removesuffix("Type").lower().replace("vartuple", "tuple")
        return TypeShape("list", name, arguments=_shapes((info.item_type,), within), limits=_limits(info))
    return TypeShape(type(info).__name__.removesuffix("Type").lower(), limits=_limits(info))


def _shapes(types: tuple[mi.Type, ...], within: tuple[Any, ...]) -> tuple[TypeShape, ...]:
    return tuple(_shape(each, within) for each in types)


def _record(info: Any, within: tuple[Any, ...]) -> TypeShape:
    name = info.cls.__name__
    if info.cls in within:
        return TypeShape("same", name)
    inner = (*within, info.cls)
    loose = isinstance(info, mi.TypedDictType)
    fields = tuple(
        FieldShape(field.encode_name, _shape(field.type, inner), _default(field), loose and not field.required)
        for field in info.fields
    )
    is_row = isinstance(info, mi.NamedTupleType) or getattr(info, "array_like", False)
    tag = getattr(info, "tag", None)
    return TypeShape(
        "row" if is_row else "record",
        name,
        fields=fields,
        tag="" if tag is None else f"{getattr(info, 'tag_field', None)}={tag!r}",
        closed=getattr(info, "forbid_unknown_fields", False),
        sparse=isinstance(info, mi.StructType) and info.cls.__struct_config__.omit_defaults,
    )


def _default(field: mi.Field) -> str | None:
    if field.default is not msgspec.NODEFAULT:
        return plain(field.default)
    if field.default_factory is msgspec.NODEFAULT:
        return None
    made = field.default_factory
    return plain(made()) if made in (list, dict, set, frozenset, tuple, bytearray) else f"{made.__qualname__}()"


def _limits(info: mi.Type) -> str:
    found = [(name, getattr(info, name, None)) for name in _LIMITS]
    return " ".join(f"{name}={value!r}" for name, value in found if value is not None)
