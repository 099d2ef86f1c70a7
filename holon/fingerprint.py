"""What a program's code is, as text: byte code, defaults, constants. Equal in every process, whatever its hash seed.

What cannot be seen from here is not part of it: functions that the program calls, and modules that it imports.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import msgspec


def code_text(function: Callable[..., Any]) -> Iterator[str]:
    """Byte code, names, constants, defaults and closed-over values of a function."""
    if isinstance(function, functools.partial):
        yield from code_text(function.func)
        yield constant_text([list(function.args), function.keywords])
        return
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        call = type(function).__call__
        yield f"{type(function).__module__}.{type(function).__qualname__}"
        if hasattr(call, "__code__"):  # an object with __call__: its attributes count too
            yield from code_text(call)
            yield constant_text(getattr(function, "__dict__", {}))
        return
    yield from _walk(function.__code__)
    yield constant_text([list(function.__defaults__ or ()), function.__kwdefaults__ or {}])
    for cell in function.__closure__ or ():
        yield constant_text(_contents(cell))


def constant_text(value: Any) -> str:
    """The value where it is plain data, else what kind of thing it is."""
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    try:
        return msgspec.json.encode(value, enc_hook=_kind, order="deterministic").decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return type(value).__qualname__


def _kind(value: Any) -> str:
    return getattr(value, "__qualname__", type(value).__qualname__)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _walk(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _walk(constant)
        else:
            yield repr(sorted(constant, key=repr)) if isinstance(constant, frozenset) else repr(constant)
