"""The operations that a function's code may have if calls with placeholders are to show all that it does."""

from __future__ import annotations

import builtins
import dis
import enum
from types import CellType, CodeType, FunctionType
from typing import Any

import msgspec

from holon.dataflow.following.nested_code import codes_of
from holon.dataflow.following.stand_ins import STAND_INS
from wcrdt.lattice import Lattice

_PURE_BUILTINS = frozenset(["abs", "divmod", "max", "min", *STAND_INS])
"""They use the operators of what they are given, or have a stand-in that does."""
_PLAIN = (type(None), bool, int, float, str, bytes)
_REFUSED = {
    "IS_OP": "`is`",
    "IMPORT_NAME": "import",
    "STORE_GLOBAL": "assigning a global name",
    "STORE_DEREF": "assigning a name of the function around it",
    "STORE_ATTR": "assigning an attribute",
    "STORE_SUBSCR": "assigning an item",
    "DELETE_ATTR": "deleting an attribute",
    "DELETE_SUBSCR": "deleting an item",
    "GET_ITER": "a loop",
    "YIELD_VALUE": "yield",
    "RAISE_VARARGS": "raise",
    "LOAD_CLASSDEREF": "a class",
    "LOAD_BUILD_CLASS": "a class",
    "MATCH_CLASS": "match",
    "MATCH_MAPPING": "match",
    "MATCH_SEQUENCE": "match",
}


class Untraceable(Exception):
    """A function cannot be followed with placeholders; the message names what it does."""


def scan(function: Any) -> bool:
    """Raise ``Untraceable`` if following the function could show something else than calling it with values.

    True where it asks whether something is None: then a field that may be None has to be None on a way of its own.
    """
    if not isinstance(function, FunctionType):
        raise Untraceable(f"a {type(function).__name__} is no function written in Python")
    return _scan(function, set())


def _scan(function: FunctionType, seen: set[CodeType]) -> bool:
    if function.__code__ in seen:
        return False
    seen.add(function.__code__)
    asks = False
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(map(is_constant, defaults)):
        raise Untraceable("an argument of it has a default that may change")
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in codes_of(function.__code__):
        if code.co_exceptiontable:
            raise Untraceable("it uses try, with or a comprehension")
        if code.co_flags & (0x20 | 0x80 | 0x200):
            raise Untraceable("it is a generator, or async")
        before = None
        for step in dis.get_instructions(code):
            # Behind a jump the value on top may be another one.
            on_top = None if step.is_jump_target else before
            with_none = on_top is not None and on_top.opname == "LOAD_CONST" and on_top.argval is None
            if step.opname.endswith(("_NONE", "_NOT_NONE")) or (step.opname == "IS_OP" and with_none):
                asks = True
            elif step.opname in _REFUSED:
                raise Untraceable(f"it uses {_REFUSED[step.opname]}")
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                asks |= _check_name(step.argval, global_of(function, step.argval), seen)
            elif step.opname in ("LOAD_DEREF", "LOAD_CLOSURE") and step.argval in held:
                asks |= _check_name(step.argval, _held_in(held[step.argval], step.argval), seen)
            before = step
    return asks


def _held_in(cell: CellType, name: str) -> Any:
    try:
        return cell.cell_contents
    except ValueError as error:
        raise Untraceable(f"it uses {name!r}, which has no value yet") from error


def global_of(function: FunctionType, name: str) -> Any:
    """The value of a global name in a function."""
    if name in function.__globals__:
        return function.__globals__[name]
    found = getattr(builtins, name, None)
    if found is None:
        raise Untraceable(f"the name {name!r} is not defined")
    return found


def _check_name(name: str, value: Any, seen: set[CodeType]) -> bool:
    if isinstance(value, FunctionType):
        return _scan(value, seen)
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        if hasattr(value, "__post_init__"):
            raise Untraceable(f"{name} checks itself (__post_init__)")
    elif not (_is_pure(name, value) or is_constant(value)):
        raise Untraceable(f"it uses {name!r}, a {type(value).__name__}")
    return False


def _is_pure(name: str, value: Any) -> bool:
    """A lattice's class, or one of Python's functions that use the operators of what they are given."""
    if name in _PURE_BUILTINS and value is getattr(builtins, name):
        return True
    return isinstance(value, type) and issubclass(value, Lattice)


def is_constant(value: Any) -> bool:
    """Whether it is plain and never changes."""
    if isinstance(value, tuple | frozenset):
        return type(value) in (tuple, frozenset) and all(map(is_constant, value))
    return type(value) in _PLAIN or isinstance(value, enum.Enum | enum.EnumMeta)
