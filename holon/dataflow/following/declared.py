"""Declared types of fields: whether a value may be None, and which Structs it may be.

A format has checked fields against them, but for defaults and what ``__post_init__`` sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from holon.columnar.event_types import fields, has_fields, is_plain_tuple

Kinds = tuple[type, ...]
"""The types that a value is one of: Structs, and ``NoneType`` first; () where that is not known."""


class Key(str):
    """The part of a field's path that is the value of a key."""

    __slots__ = ()

    def value_of(self, value: Any) -> Any:
        """The value of the key in a dict."""
        return value[str(self)]


class Member(str):
    """The part of a field's path that is the value where it is of one Struct among several, else None."""

    __slots__ = ("kind",)
    kind: type

    @classmethod
    def of(cls, kind: type) -> Member:
        """The part for one Struct: columns are called by its name."""
        made = cls(kind.__name__)
        made.kind = kind
        return made

    def value_of(self, value: Any) -> Any:
        """The value, or None."""
        return value if type(value) is self.kind else None


def field_types(of: Any) -> Mapping[str, Any]:
    """The declared types of the fields of a Struct, or of a plain dataclass and the like, by name; else none."""
    return {name: field.type for name, field in _fields(of).items()} if has_fields(of) else {}


_NO_KEYS: dict[type, str] = {
    bool: "int(...) of it is one",
    float: "str(...) of it is one, or a whole number of units",
    Decimal: "str(...) of it is one, or a whole number of units",
    Enum: "its .value may be one",
    date: "its .isoformat() is one",
    time: "its .isoformat() is one",
    timedelta: "str(...) of it is one",
    list: "tuple(...) of it is one where its items are",
    set: "tuple(sorted(...)) of it is one where its items are",
    frozenset: "tuple(sorted(...)) of it is one where its items are",
    dict: "take values of it",
}
"""By type, what to take for a key in place of a value."""


class NoKey(NamedTuple):
    """A declared type of which no value can be a key, and what can be one."""

    name: str
    instead: str


def no_key(of: Any) -> NoKey | None:
    """Where no value of a declared type, but None, can be a key of a group; None where one can, or it is not known."""
    origin = get_origin(of)
    if origin is Annotated:
        return no_key(get_args(of)[0])
    if origin in (Union, UnionType):
        found = [no_key(member) for member in get_args(of) if member is not NoneType]
        return found[0] if found and all(found) else None
    kind = of if origin is None else origin
    if not isinstance(kind, type) or (issubclass(kind, int | str) and kind is not bool):  # of enums, too
        return None
    if (kind.__module__, kind.__name__) == ("uuid", "UUID"):  # this room imports no module that draws
        return NoKey("UUID", "str(...) of it is one")
    if has_fields(kind) and not is_plain_tuple(kind) and not issubclass(kind, dict):
        return NoKey(kind.__name__, "take a tuple of its fields")
    return next((NoKey(kind.__name__, instead) for one, instead in _NO_KEYS.items() if issubclass(kind, one)), None)


def is_plain_enum(of: Any) -> bool:
    """Whether ``name`` and ``value`` of its members are those of every enum."""
    is_enum = isinstance(of, type) and issubclass(of, Enum)
    if not is_enum or issubclass(of, Flag):  # several flags are no member
        return False
    return all(name not in vars(each) for each in of.__mro__ if each.__module__ != "enum" for name in ("name", "value"))


def type_of_part(of: Any, name: str) -> type | None:
    """The type of all names or values of an enum's members, if that is text or a number; else None."""
    kinds = [type(getattr(one, name)) for one in of]
    return kinds[0] if kinds and kinds[0] in (str, int, float) and len(set(kinds)) == 1 else None


def kinds_of(of: Any) -> Kinds:
    """The Structs that a value of a type is one of, behind ``NoneType`` where it may be None."""
    if get_origin(of) is Annotated:
        return kinds_of(get_args(of)[0])
    kinds = get_args(of) if get_origin(of) in (Union, UnionType) else (of,)
    structs = tuple(kind for kind in kinds if kind is not NoneType)
    if not all(map(has_fields, structs)) or len({kind.__name__ for kind in structs}) < len(structs):
        return ()  # parts of paths are names
    if not structs:
        return ()
    return structs if len(structs) == len(kinds) else (NoneType, *structs)


def kinds_of_field(struct: Any, name: str) -> Kinds:
    """As ``kinds_of``, of a field that a format has checked: () where its default may be of another type."""
    field = _field(struct, name)
    kinds = kinds_of(field.type)
    known = field.default is msgspec.NODEFAULT or (field.default is None and NoneType in kinds)
    is_known = known and field.default_factory is msgspec.NODEFAULT and not hasattr(struct, "__post_init__")
    return kinds if is_known else ()


def may_be_none(struct: Any, name: str) -> bool:
    """Whether a field of a Struct may be None though a format has checked it: its default is checked by no format."""
    field = _field(struct, name)
    made = field.default_factory is msgspec.NODEFAULT or field.default_factory in (list, dict, set)
    plain = field.default is msgspec.NODEFAULT and made
    known = type(field.default) in (int, float, str, bytes, bool) or plain
    return not known or hasattr(struct, "__post_init__") or _holds_none(field.type)


class ItemType(NamedTuple):
    """The declared type of a list's items, without None."""

    type: Any
    may_be_none: bool


def item_of(of: Any) -> ItemType | None:
    """The items of a list, as a format has checked them; None where that is not known."""
    if get_origin(of) is Annotated:
        return item_of(get_args(of)[0])
    if get_origin(of) is not list:
        return None
    (kind,) = get_args(of)
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    found = without_none(kind)
    if get_origin(found) in (Union, UnionType) or found in (object, Any):
        return None
    return ItemType(found, found is not kind)


def without_none(of: Any) -> Any:
    """The type of a value that is not None."""
    if get_origin(of) not in (Union, UnionType):
        return of
    return Union[tuple(kind for kind in get_args(of) if kind is not NoneType)]  # noqa: UP007 (of one it is that one)


def _field(struct: Any, name: str) -> msgspec.structs.FieldInfo:
    return _fields(struct)[name]


@lru_cache(1024)
def _fields(struct: Any) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in fields(struct)}


def _holds_none(of: Any) -> bool:
    if isinstance(of, type):
        return of in (NoneType, object, Any)
    origin = get_origin(of)
    if origin is Annotated:
        return _holds_none(get_args(of)[0])
    if origin in (Union, UnionType):
        return any(map(_holds_none, get_args(of)))
    return not (isinstance(origin, type) and issubclass(origin, list | dict | tuple | set | frozenset))
