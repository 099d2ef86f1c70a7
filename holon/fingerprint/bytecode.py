"""A code object as text: byte code, names and constants, those of nested functions too; no lines, no paths."""

from __future__ import annotations

import dis
import importlib
import importlib.util
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_IMPORT = dis.opmap["IMPORT_NAME"]
FORMAT = importlib.util.MAGIC_NUMBER.hex()
"""Of Python's byte code: another one gives other text for the same source."""


class Import(NamedTuple):
    """An import statement within a function; ``names``: what is imported from the module."""

    module: str
    level: int
    names: tuple[str, ...]


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code and all within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def code_text(code: CodeType) -> str:
    """Equal in every process whatever its hash seed; a function that behaves otherwise has another one."""
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    constants = [constant_text(each) for each in code.co_consts]
    bound = [*parameters, "|", *code.co_names, "|", *code.co_freevars]
    return "\n".join([code.co_code.hex(), code.co_exceptiontable.hex(), f"{counts}", " ".join(bound), *constants])


def constant_text(constant: Any) -> str:
    """Of a constant that the compiler makes: sets of constants have no order of their own."""
    if isinstance(constant, CodeType):
        return code_text(constant)
    if isinstance(constant, frozenset):
        return f"frozenset {sorted(constant_text(each) for each in constant)}"
    if isinstance(constant, tuple):
        return f"tuple {[constant_text(each) for each in constant]}"
    return repr(constant)


def imports(code: CodeType) -> Iterator[Import]:
    """Import statements of the code and all within it."""
    for each in nested(code):
        if _IMPORT not in each.co_code[::2]:
            continue
        constants: list[Any] = [0, None]
        for instruction in dis.get_instructions(each):
            if instruction.opcode == _IMPORT:
                yield Import(str(instruction.argval), constants[-2] or 0, tuple(constants[-1] or ()))
            elif instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
                constants.append(instruction.argval)
