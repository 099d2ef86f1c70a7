"""Values that functions name, as text: equal values in equal text, in every process."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import operator
import re
import struct
import types
import typing
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol

import msgspec
import numpy as np

from holon.fingerprint.module_owners import Room, full_name

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_DESCRIPTIVE = (
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
    *(decimal.Decimal, fractions.Fraction, range, slice, inspect.Signature, zoneinfo.ZoneInfo),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller, msgspec.Meta, msgspec.UnsetType),
)
"""``repr`` of these is complete."""
_DESCRIPTORS = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
_HARMLESS = frozenset(["logging", "_thread", "threading", "weakref", "_weakref", "_abc", "_contextvars"])
"""Modules of objects that no result follows from."""
_CODEC = ("type", "strict", "dec_hook", "enc_hook", "order", "factory")
"""Attributes of msgspec's objects."""
_OPTIONS = ("array_like", "tag", "tag_field", "omit_defaults", "forbid_unknown_fields", "frozen", "order", "eq")
_CONTAINERS = (Mapping, Sequence, Set)
_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, int, float)
_LARGE = 256
_WORD = re.compile(r"[A-Za-z_]\w*")


class Reach(Protocol):
    """The walker from definition to definition."""

    def token(self, value: Any) -> str: ...
    def room(self, kind: type) -> Room: ...
    def report_unknown(self, what: str) -> None: ...
    def label(self, name: str, found: Any) -> str: ...
    def library(self, module: str) -> None: ...
    def function(self, found: types.FunctionType) -> str: ...
    def class_(self, kind: type) -> str: ...
    def named(self, value: Any, names: frozenset[str], *, everything: bool = False) -> str: ...
    def quietly(self) -> Any: ...


class ValueText:
    """Text of one value; what has a name is left to ``reach``."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._within: list[Any] = []

    def token(self, value: Any) -> str:
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return repr(value)
        if isinstance(value, types.FunctionType):
            return self._reach.function(value)
        if isinstance(value, type) and not isinstance(value, types.GenericAlias):
            return self._reach.class_(value)
        if any(each is value for each in self._within):
            return "(itself)"
        self._within.append(value)
        try:
            return self._callable(value) or self._descriptive(value) or self._container(value) or self._object(value)
        except RecursionError:
            self._reach.report_unknown(f"a {type(value).__qualname__} that is too deep")
            return type(value).__qualname__
        finally:
            self._within.pop()

    # --- kinds of values ----------------------------------------------------------------------------------------------

    def _callable(self, value: Any) -> str:
        match value:
            case types.MethodType():
                return f"method {self.token(value.__func__)} of {self.token(value.__self__)}"
            case types.BuiltinFunctionType():
                owner = value.__self__
                bound = "" if owner is None or isinstance(owner, types.ModuleType) else f" of {self.token(owner)}"
                if value.__module__:
                    self._library(value.__module__)
                return f"{value.__module__}.{value.__qualname__}{bound}"
            case functools.partial():
                return f"partial {self.token(value.func)} {self.token(list(value.args))} {self.token(value.keywords)}"
            case staticmethod() | classmethod():
                return f"{type(value).__name__} {self.token(value.__func__)}"
            case property():
                return f"property {[self.token(each) for each in (value.fget, value.fset, value.fdel)]}"
            case functools.cached_property() | functools.partialmethod():
                return f"{type(value).__name__} {self.token(value.func)}"
        return ""

    def _descriptive(self, value: Any) -> str:
        match value:
            case enum.Enum():
                return f"{self._reach.class_(type(value))}.{value.name}"
            case re.Pattern():
                return f"pattern {value.pattern!r} {value.flags}"
            case struct.Struct():
                return f"struct {value.format!r}"
            case np.generic():
                return f"{value.dtype} {value.item()!r}"
            case np.ndarray():
                held = self.token(value.tolist()) if value.dtype.hasobject else value.tobytes().hex()
                return f"array {value.dtype} {value.shape} {held}"
            case types.ModuleType():
                return self._reach.named(value, frozenset())
            case types.SimpleNamespace():
                return f"namespace {self.token(vars(value))}"
        if isinstance(value, _DESCRIPTIVE) or type(value).__module__ == "uuid":
            return f"{type(value).__qualname__} {value!r}"
        return self._annotation(value)

    def _annotation(self, value: Any) -> str:
        """Of types that are no classes: generic ones, unions, type variables."""
        arguments = typing.get_args(value)
        if arguments:
            return f"{self.token(typing.get_origin(value))}{[self.token(each) for each in arguments]}"
        if isinstance(value, typing.NewType):
            return f"{value.__name__} {self.token(value.__supertype__)}"
        if type(value).__module__ == "typing":
            return f"typing {getattr(value, '__name__', None) or value!r}"
        return ""

    def _container(self, value: Any) -> str:
        kind = type(value)
        if not isinstance(value, _CONTAINERS) or self._reach.room(kind) is not Room.PYTHON:
            return ""
        if len(value) > _LARGE:
            try:
                return f"{kind.__qualname__} {msgspec.json.encode(value, order='deterministic').decode()}"
            except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
                pass  # holds more than plain values
        if isinstance(value, Mapping):
            factory = self.token(getattr(value, "default_factory", None))
            return f"{kind.__qualname__} {factory}{{{', '.join(self._pairs(value))}}}"
        if isinstance(value, Set):
            return f"{kind.__qualname__} {sorted(self.token(each) for each in sorted(value, key=_sorting))}"
        return f"{kind.__qualname__} [{', '.join(self.token(each) for each in value)}]"

    def _pairs(self, value: Mapping[Any, Any]) -> Iterator[str]:
        for key, each in value.items():
            yield f"{self.token(key)}: {self.token(each)}"

    def _object(self, value: Any) -> str:
        """Anything else: an object of the user's is walked; so is one of Holon's, for what it was given."""
        kind = type(value)
        name = full_name(kind.__module__, kind.__qualname__)
        room = self._reach.room(kind)
        if room in (Room.USER, Room.HOLON):
            return self._reach.label(f"{name}()", value)
        if room is Room.LIBRARY:
            self._reach.library(kind.__module__)
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
        if wrapped is not None:
            return f"{name} of {self.token(wrapped)}"
        if kind.__module__.startswith("msgspec"):
            return f"{name} {[self.token(getattr(value, each, None)) for each in _CODEC]}"
        if isinstance(getattr(value, "__name__", None), str):  # a function in C
            return f"{name} {value.__name__}"
        if kind.__module__ in _HARMLESS or kind is object:
            return name
        self._reach.report_unknown(f"what the {name} holds that it uses")
        return name

    def _library(self, module: str) -> None:
        from holon.fingerprint.module_owners import loaded, room_of

        if room_of(loaded(module)) is Room.LIBRARY:
            self._reach.library(module)

    # --- objects and classes ------------------------------------------------------------------------------------------

    def object_lines(self, value: Any) -> Iterator[str]:
        """Class and attributes of an object."""
        kind = type(value)
        yield self._reach.class_(kind)
        if self._reach.room(kind) is Room.HOLON:
            yield from self._given_lines(value)
            return
        for base in _BASES:
            if isinstance(value, base):
                yield self.token(base(value))
        for name, each in _attributes(value):
            yield f"{name}={self.token(each)}"

    def _given_lines(self, value: Any) -> Iterator[str]:
        """Of Holon's objects: their own description, and the user's objects in them."""
        describe = getattr(value, "describe", None)
        if describe is not None:
            yield str(describe())
        with self._reach.quietly():
            for name, each in _attributes(value):
                if describe is None:
                    yield f"{name}={self.token(each)}"
                elif self._matters(each):
                    yield self.token(each)

    def _matters(self, value: Any) -> bool:
        return callable(value) or self._reach.room(type(value)) in (Room.USER, Room.HOLON)

    def class_lines(self, kind: type, space: Mapping[str, Any]) -> Iterator[str]:
        """Bases, members and fields of a class; methods that were made for its fields add nothing of their own."""
        bases = kind.__dict__.get("__orig_bases__", kind.__bases__)
        yield f"{[self.token(each) for each in bases]} {self.token(type(kind))}"
        yield from self._fields(kind)
        special = enum.Enum in kind.__mro__
        for name, member in sorted(vars(kind).items()):
            if not _is_made(name, member) and not (special and (name in kind.__members__ or name[0] == "_")):  # type: ignore[attr-defined]
                yield f"{name}={self.token(member)}"
        if special:
            yield from (f"{name}={self.token(each.value)}" for name, each in kind.__members__.items())  # type: ignore[attr-defined]
        for name, given in inspect.get_annotations(kind).items():
            yield f"{name}: {self._annotated(given, space)}"

    def _fields(self, kind: type) -> Iterator[str]:
        if issubclass(kind, msgspec.Struct):
            made = kind.__struct_config__
            yield f"{[self.token(getattr(made, each)) for each in _OPTIONS]}"
            names, given = kind.__struct_fields__, kind.__struct_defaults__
            defaults = [msgspec.NODEFAULT] * (len(names) - len(given)) + list(given)
            for name, encoded, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
                yield f"{name} {encoded} {self._default(default)}"
        elif dataclasses.is_dataclass(kind):
            yield f"{kind.__dataclass_params__!r}"  # type: ignore[attr-defined]
            for field in dataclasses.fields(kind):
                given = [self._default(each) for each in (field.default, field.default_factory)]
                yield f"{field.name} {given} {field.init} {field.compare} {field.kw_only}"
        elif typing.is_typeddict(kind):
            yield f"{sorted(kind.__required_keys__)}"  # type: ignore[attr-defined]
        elif issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
            yield f"{kind._fields} {self.token(kind._field_defaults)}"  # type: ignore[attr-defined]

    def _default(self, value: Any) -> str:
        return "none" if value is msgspec.NODEFAULT or value is dataclasses.MISSING else self.token(value)

    def _annotated(self, given: Any, space: Mapping[str, Any]) -> str:
        """An annotation that is text names types of its module."""
        if not isinstance(given, str):
            return self.token(given)
        words = frozenset(_WORD.findall(given))
        found = [self._reach.named(space[each], words) for each in sorted(words) if each in space]
        return f"{given!r} {found}"


def _attributes(value: Any) -> Iterable[tuple[str, Any]]:
    """By name: of its dict, its slots or its fields; what is only remembered is not part of it."""
    kind = type(value)
    found = dict(getattr(value, "__dict__", {}))
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else tuple(slots)
        found |= {name: getattr(value, name) for name in names if hasattr(value, name)}
    found |= {name: getattr(value, name) for name in getattr(kind, "__struct_fields__", ()) if hasattr(value, name)}
    kept = {name for each in kind.__mro__ for name, m in vars(each).items() if isinstance(m, functools.cached_property)}
    return sorted((name, each) for name, each in found.items() if name not in kept and not name.startswith("__"))


def _is_made(name: str, member: Any) -> bool:
    """Whether Python, or a decorator, has made this member of a class out of the others."""
    if isinstance(member, _DESCRIPTORS) or type(member).__name__ == "_tuplegetter":
        return True
    special = name.startswith("__") and name.endswith("__")
    function = getattr(member, "__func__", member)
    if isinstance(function, types.FunctionType):
        return special and function.__code__.co_filename.startswith("<")
    return special or name == "_abc_impl"


def _sorting(value: Any) -> tuple[str, str]:
    named = getattr(value, "__qualname__", "")
    return type(value).__qualname__, full_name(str(getattr(value, "__module__", "")), named) if named else repr(value)
