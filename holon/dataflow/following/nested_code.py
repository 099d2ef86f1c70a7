"""Code objects of functions that are written within a function."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any


def exception_entries(code: CodeType) -> list[Any]:
    """Entries of the code: instructions from ``start`` to ``end``, the ``target`` of their errors, and its stack."""
    return dis._parse_exception_table(code)  # type: ignore[attr-defined]


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, then of those that are written within it, at any depth."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:  # a stand-in refuses other questions
            yield from codes_of(constant)
