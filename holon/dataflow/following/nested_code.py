"""Code objects of functions that are written within a function."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, then of those that are written within it, at any depth."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)
