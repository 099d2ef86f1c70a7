"""Python's functions that insist on a value (``len`` must give an int), replaced while a function is followed.

The function's code runs with other globals: those that it uses, and builtins of which some are stand-ins. So do
functions that it calls, and those in the variables that it closes over. Of values a stand-in gives what Python gives.
"""

from __future__ import annotations

import builtins
import dataclasses
import datetime as datetime_module
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from types import CellType, CodeType, FunctionType
from typing import Any

from holon.dataflow.following.nested_code import codes_of
from holon.dataflow.following.rewritten_code import Identity, code_as_written, names_of_identities, rewritten

REDUCING = ("all", "any", "max", "min", "sum")
"""Builtins that take all items of a list at once."""
LOOPED = ("enumerate", "range", "reversed", "zip")
"""Builtins that a loop may go over."""
MAKING = ("frozenset", "list", "set", "sorted", "tuple")
"""Builtins that make a list or set of all items."""
_OF_ONE = ("bool", "float", "getattr", "hasattr", "int", "len", "round", "str", "type")
STAND_INS: tuple[str, ...] = (*_OF_ONE, *REDUCING, *LOOPED, *MAKING)
"""The builtins that are replaced."""
TIME_NAMES = ("UTC", "timedelta", "timezone")
"""Names of the module ``datetime`` that are as they are: constants, and types of which all calls are pure."""
OF_MATH = tuple(
    getattr(math, name)
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh"),
        *("degrees", "erf", "exp", "exp2", "expm1", "fabs", "floor", "fmod", "gcd", "hypot", "isclose", "isfinite"),
        *("isinf", "isnan", "ldexp", "log", "log10", "log1p", "log2", "pow", "radians", "remainder", "sin", "sinh"),
        *("sqrt", "tan", "tanh", "trunc"),
    )
    if hasattr(math, name)
)
"""Functions of the module ``math`` that take numbers and give one."""
_NAMED = (datetime, datetime_module, math, re, Decimal, dataclasses, dataclasses.replace)


def is_named(value: Any) -> bool:
    """Whether a name may stand for it, since it has a stand-in that refuses all that is not followed."""
    return type(value) is re.Pattern or any(value is one for one in (*_NAMED, *OF_MATH))


class NotAValue:
    """A stand-in that a function may use, and cannot give."""

    __slots__ = ()


class StandInType(type):
    """A type in place of a builtin one, which ``isinstance`` and ``match`` may still ask for."""

    real: type
    called: Callable[..., Any]

    @staticmethod
    def of(real: type, called: Callable[..., Any]) -> StandInType:
        """``called`` gives what calling the type gives."""
        made = StandInType(real.__name__, (), {})
        made.real, made.called = real, called
        return made

    def __call__(cls, *given: Any, **named: Any) -> Any:
        return cls.called(*given, **named)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real)


Replace = Callable[[Any], Any]
"""From the value of a name to itself, or a stand-in."""


def with_stand_ins(
    function: Callable[..., Any], stand_ins: Mapping[str, Callable[..., Any]], replace: Replace = lambda value: value
) -> Callable[..., Any]:
    """The function with ``stand_ins`` in place of builtins, and others by ``replace`` in place of what it names.

    Itself where neither it nor what it calls uses one.
    """
    assert isinstance(function, FunctionType), "what is no function was refused before"
    if not _uses(function, stand_ins, replace, set()):
        return function
    return _Replaced({**vars(builtins), **stand_ins}, replace).function(function)


def as_written(function: Any) -> Any:
    """A function that was made while one with stand-ins ran, with the names that were there before."""
    names = function.__globals__.get(_WRITTEN) if isinstance(function, FunctionType) else None
    if names is None:
        return function
    code = code_as_written(function.__code__)
    made = FunctionType(code, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


_WRITTEN = " as written"
"""Where names with stand-ins hold those without; no name has a blank."""


def _uses(function: FunctionType, names: Mapping[str, Any], replace: Replace, seen: set[FunctionType]) -> bool:
    seen.add(function)
    if _rewritten(function, replace) is not function.__code__:
        return True
    if any(name in names and name not in function.__globals__ for name in _names(function.__code__)):
        return True
    held = list(_held(function))
    if any(replace(one) is not one for one in held):
        return True
    return any(_uses(one, names, replace, seen) for one in held if isinstance(one, FunctionType) and one not in seen)


def _rewritten(function: FunctionType, replace: Replace) -> CodeType:
    return rewritten(function.__code__, function.__globals__.get, replace)


def _held(function: FunctionType) -> Iterator[Any]:
    """The values that it names, of which none is a builtin."""
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def _names(code: CodeType) -> set[str]:
    """All names of a function's code, and of functions that are written within it."""
    return {name for each in codes_of(code) for name in each.co_names}


class _Replaced:
    """Functions that call each other, each made anew once."""

    def __init__(self, names: Mapping[str, Any], replace: Replace) -> None:
        self._builtins = dict(names)
        self._replace = replace
        self._known: dict[FunctionType, FunctionType] = {}

    def function(self, function: FunctionType) -> FunctionType:
        """It with other builtins."""
        if function in self._known:
            return self._known[function]
        names: dict[str, Any] = {"__builtins__": self._builtins, "__name__": function.__module__}
        names[_WRITTEN] = function.__globals__
        cells = tuple(CellType() for _ in function.__closure__ or ())
        code = _rewritten(function, self._replace)
        made = FunctionType(code, names, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        self._known[function] = made  # before what it calls, which may call it
        for name in sorted(_names(function.__code__) & function.__globals__.keys()):
            names[name] = self._value(function.__globals__[name])
        for name, enum in (pair for each in codes_of(code) for pair in names_of_identities(each)):
            names[name] = self._replace(Identity(function.__globals__[enum]))
        for cell, held in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self._value(held.cell_contents)
        return made

    def _value(self, value: Any) -> Any:
        found = self._replace(value)
        return self.function(found) if found is value and isinstance(value, FunctionType) else found
