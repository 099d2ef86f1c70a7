"""Dataclasses, TypedDicts and NamedTuples with the fields of a Struct."""

from __future__ import annotations

import dataclasses
import random
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union, get_args, get_origin

import msgspec

Form = Literal["dataclass", "dict", "tuple"]


def plain_type(of: Any, form: Form, draw: random.Random) -> Any:
    """The type with these fields, under the names that JSON has. Structs inside become such types, too.

    Structs with tags, or that check themselves, stay. Defaults of TypedDicts are left out.
    """
    if get_origin(of) is Annotated:
        return Annotated[(plain_type(get_args(of)[0], form, draw), *get_args(of)[1:])]
    if get_origin(of) in (Union, UnionType):
        return Union[tuple(plain_type(one, form, draw) for one in get_args(of))]  # noqa: UP007
    if get_origin(of) is list:
        return list[plain_type(get_args(of)[0], form, draw)]
    if not (isinstance(of, type) and issubclass(of, msgspec.Struct)) or hasattr(of, "__post_init__"):
        return of
    if of.__struct_config__.tag is not None or not of.__struct_fields__:
        return of
    fields = [(one.encode_name, plain_type(one.type, form, draw), one) for one in msgspec.structs.fields(of)]
    if form == "dict":
        return TypedDict(of.__name__, {name: kind for name, kind, _ in fields})
    fields.sort(key=lambda one: not one[2].required)
    if form == "tuple":
        made = NamedTuple(of.__name__, [(name, kind) for name, kind, _ in fields])
        return made
    described = [(name, kind, _default(one)) for name, kind, one in fields]
    frozen, slots = draw.random() < 0.5, draw.random() < 0.5
    return dataclasses.make_dataclass(of.__name__, described, frozen=frozen, slots=slots, kw_only=draw.random() < 0.5)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field() if field.default is msgspec.NODEFAULT else dataclasses.field(default=field.default)
