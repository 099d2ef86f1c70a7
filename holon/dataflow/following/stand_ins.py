"""Python's functions that insist on a value (``len`` must give an int), replaced while a function is followed.

The function's code runs with other globals: those that it uses, and builtins of which some are stand-ins. So do
functions that it calls, and those in the variables that it closes over. Of values a stand-in gives what Python gives.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

from holon.dataflow.following.nested_code import codes_of

STAND_INS: tuple[str, ...] = ("float", "int", "len", "round", "str", "type")
"""The builtins that are replaced."""


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


def with_stand_ins(function: Callable[..., Any], stand_ins: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The function with ``stand_ins`` in place of builtins; itself where neither it nor what it calls uses one."""
    assert isinstance(function, FunctionType), "what is no function was refused before"
    if not _uses(function, stand_ins, set()):
        return function
    return _Replaced({**vars(builtins), **stand_ins}).function(function)


def _uses(function: FunctionType, names: Mapping[str, Any], seen: set[FunctionType]) -> bool:
    seen.add(function)
    if any(name in names and name not in function.__globals__ for name in _names(function.__code__)):
        return True
    return any(_uses(one, names, seen) for one in _functions(function) if one not in seen)


def _functions(function: FunctionType) -> Iterator[FunctionType]:
    """The functions that it names."""
    for name in _names(function.__code__):
        if isinstance(found := function.__globals__.get(name), FunctionType):
            yield found
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, FunctionType):
            yield cell.cell_contents


def _names(code: CodeType) -> set[str]:
    """All names of a function's code, and of functions that are written within it."""
    return {name for each in codes_of(code) for name in each.co_names}


class _Replaced:
    """Functions that call each other, each made anew once."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._builtins = dict(names)
        self._known: dict[FunctionType, FunctionType] = {}

    def function(self, function: FunctionType) -> FunctionType:
        """It with other builtins."""
        if function in self._known:
            return self._known[function]
        names: dict[str, Any] = {"__builtins__": self._builtins, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        self._known[function] = made  # before what it calls, which may call it
        for name in sorted(_names(function.__code__) & function.__globals__.keys()):
            names[name] = self._value(function.__globals__[name])
        for cell, held in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self._value(held.cell_contents)
        return made

    def _value(self, value: Any) -> Any:
        return self.function(value) if isinstance(value, FunctionType) else value
