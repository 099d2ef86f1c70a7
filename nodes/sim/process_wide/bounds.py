"""Bounds of modules below which rows are too few for columns or loops: so that a seed's few records go that way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def bounds_of_one(bounds: Sequence[tuple[ModuleType, str]]) -> Iterator[None]:
    """In here these bounds, by module and name, are 1."""
    before = [getattr(module, name) for module, name in bounds]
    try:
        for module, name in bounds:
            setattr(module, name, 1)
        yield
    finally:
        for (module, name), bound in zip(bounds, before, strict=True):
            setattr(module, name, bound)
