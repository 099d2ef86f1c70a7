"""Types whose values are read and made field by field: Structs, dataclasses, TypedDicts and NamedTuples.

A plain one of the latter three runs no code of a user when msgspec makes a value of it, or when a field is read.
"""

from __future__ import annotations

import collections
import dataclasses
import typing
from abc import ABCMeta
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import getattr_static
from operator import attrgetter, itemgetter
from types import FunctionType, MemberDescriptorType
from typing import Any, Required, TypeGuard, get_args, get_origin

import msgspec
from msgspec import inspect

Fields = tuple[msgspec.structs.FieldInfo, ...]

ITSELF = ""
"""The column of the events themselves, beside those of fields, where events are no Structs."""
_WITH_FIELDS = inspect.DataclassType | inspect.NamedTupleType | inspect.StructType | inspect.TypedDictType


def is_struct(of: Any) -> TypeGuard[type[msgspec.Struct]]:
    """Whether it is the class of a Struct."""
    return isinstance(of, type) and issubclass(of, msgspec.Struct)


def has_fields(of: Any) -> bool:
    """Whether it is the class of a Struct, or a plain dataclass, TypedDict or NamedTuple."""
    return is_struct(of) or (isinstance(of, type) and not _why(of))


def is_plain_dict(of: Any) -> bool:
    """Whether it is a TypedDict that is plain."""
    return typing.is_typeddict(of) and not _why(of)


def is_plain_tuple(of: Any) -> bool:
    """Whether it is a NamedTuple that is plain."""
    return isinstance(of, type) and issubclass(of, tuple) and not _why(of)


def fields(of: Any) -> Fields:
    """The fields of a type that has some, in order."""
    return msgspec.structs.fields(of) if is_struct(of) else _fields(of)


def field_names(of: Any) -> Sequence[str]:
    """Their names."""
    return of.__struct_fields__ if is_struct(of) else tuple(field.name for field in _fields(of))


def getter(of: Any, name: str) -> Callable[[Any], Any]:
    """A function that reads a field of a value."""
    return itemgetter(name) if typing.is_typeddict(of) else attrgetter(name)


def is_made_of_fields(of: Any) -> bool:
    """Whether calling a type with values of its fields does nothing but keep them. Structs are not asked here."""
    if not isinstance(of, type) or typing.is_typeddict(of) or _why(of):
        return False
    if issubclass(of, tuple):
        return True
    declared = dataclasses.fields(of)
    return is_generated(of.__init__) and all(field.init for field in declared)  # type: ignore[misc]


def made(of: Any, columns: Sequence[list[Any]]) -> list[Any]:
    """Values of a type that is made of its fields, by the values of these in their order."""
    if issubclass(of, tuple) or not any(field.kw_only for field in dataclasses.fields(of)):
        return list(map(of, *columns))
    names = field_names(of)
    return [of(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def is_generated(member: Any) -> bool:
    """Whether a function of a class was written by ``dataclasses``, ``collections`` or ``typing``."""
    if not isinstance(member, FunctionType):
        return False
    code = member.__code__
    return code.co_qualname.startswith("__create_fn__.<locals>.") or code.co_filename in _GENERATING


_GENERATING = (collections.__file__, dataclasses.__file__, typing.__file__)


def why_not_plain(of: Any) -> str:
    """Why a dataclass, TypedDict or NamedTuple is not plain; "" where it is, and for other types."""
    found = _why(of) if isinstance(of, type) else ""
    return "" if found == _OTHER else found


_OTHER = "it is of another kind"


@lru_cache(1024)
def _why(of: type) -> str:
    """Why a class is no plain dataclass, TypedDict or NamedTuple; "" where it is one."""
    if typing.is_typeddict(of):
        return _why_no_plain_dict(of)
    if dataclasses.is_dataclass(of):
        return _why_no_plain_dataclass(of)
    if issubclass(of, tuple) and of.__bases__ == (tuple,) and hasattr(of, "_field_defaults"):
        return "" if _fields_of_info(of) else "msgspec knows no fields of it"
    return _OTHER


def _why_no_plain_dict(of: Any) -> str:
    found = _fields_of_info(of)
    if not found:
        return "msgspec knows no fields of it"
    if not all(field.required for field in found):
        return f"{of.__name__} has keys that may be missing"
    if not all(field.name.isidentifier() for field in found):
        return f"{of.__name__} has keys that are no names"
    return ""


_CALLED = {"__new__": object.__new__, "__getattribute__": object.__getattribute__, "__setattr__": object.__setattr__}


def _why_no_plain_dataclass(of: Any) -> str:
    if hasattr(of, "__post_init__"):
        return f"{of.__name__} checks itself (__post_init__)"
    found = _fields_of_info(of)
    if not found:
        return "msgspec knows no fields of it"
    if type(of) not in (type, ABCMeta) or hasattr(of, "__getattr__"):
        return f"{of.__name__} has attributes of its own making"
    for name, usual in _CALLED.items():
        member = getattr(of, name)
        if member is not usual and not is_generated(member):
            return f"{of.__name__} has a {name} of its own"
    for field in found:
        member = getattr_static(of, field.name, None)
        if hasattr(type(member), "__get__") and not isinstance(member, MemberDescriptorType):
            return f"{of.__name__}.{field.name} runs code"
    return ""


def _fields_of_info(of: Any) -> tuple[inspect.Field, ...]:
    """The fields as msgspec has them; () where it cannot decode the type."""
    try:
        info = inspect.type_info(of)
    except (AttributeError, NameError, TypeError, ValueError):  # of types that it cannot decode
        return ()
    return info.fields if isinstance(info, _WITH_FIELDS) else ()


@lru_cache(1024)
def _fields(of: Any) -> Fields:
    hints = typing.get_type_hints(of, include_extras=True)
    return tuple(_field(field, hints.get(field.name, Any)) for field in _fields_of_info(of))


def _field(field: inspect.Field, hint: Any) -> msgspec.structs.FieldInfo:
    of = get_args(hint)[0] if get_origin(hint) is Required else hint
    has_default = field.default is not msgspec.NODEFAULT or field.default_factory is not msgspec.NODEFAULT
    default = field.default if field.required or has_default else msgspec.UNSET  # which ``inspect`` leaves out
    return msgspec.structs.FieldInfo(field.name, field.name, of, default, field.default_factory)
