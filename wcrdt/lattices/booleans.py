"""``BoolOr`` and ``BoolAnd``: a flag that flips once."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from wcrdt.codec import require
from wcrdt.elements import plain
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups
from wcrdt.lattices.folding import Folding, require_same


class BoolOr(Folding[bool, bool]):
    """True once any True was inserted."""

    __slots__ = ("_value",)
    tag: ClassVar[str] = "or"
    compact: ClassVar[bool] = True
    combines = True
    hands_over = True
    _start: ClassVar[bool] = False

    def __init__(self) -> None:
        self._value = self._start

    def bottom(self) -> Self:
        return type(self)()

    def fold(self, element: bool) -> bool:
        element = plain(element)
        if type(element) is not bool:
            raise TypeError(f"{type(self).__name__} takes bools, not {element!r}")
        return element

    def fold_groups(self, column: Any, groups: Groups) -> list[bool] | None:
        if not isinstance(column, np.ndarray) or column.dtype.kind != "b" or column.ndim != 1:
            return None
        pick = groups.smallest if self._start else groups.largest
        return pick(column).tolist()

    def absorb(self, partial: bool, actor: int) -> bool:
        if partial == self._start or self._value != self._start:
            return False
        self._value = partial
        return True

    def own(self, actor: int) -> Self:
        part = self.bottom()
        part._value = self._value
        return part

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        return self.absorb(other._value, 0)

    def leq(self, other: Self) -> bool:
        return self._value == self._start or other._value != self._start

    @property
    def value(self) -> bool:
        return self._value

    def to_wire(self) -> type_of_wire:
        return int(self._value)

    def from_wire(self, wire: type_of_wire) -> Self:
        require(type(wire) is int and wire in (0, 1), "a bool is 0 or 1")
        fresh = self.bottom()
        fresh._value = bool(wire)
        return fresh


class BoolAnd(BoolOr):
    """False once any False was inserted; the bottom is True and False is above it."""

    __slots__ = ()
    tag: ClassVar[str] = "and"
    _start: ClassVar[bool] = True
