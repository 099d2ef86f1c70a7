"""``Max`` and ``Min`` of any elements, in the one order of ``wcrdt.elements``."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Generic, Self, TypeVar

from wcrdt.codec import element_from_wire, element_to_wire
from wcrdt.elements import NUMBERS, plain, precedes
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, number_column
from wcrdt.lattices.folding import Folding, require_same

T = TypeVar("T")


class _Extreme(Folding[T, T | None], Generic[T]):
    """One element, None at the bottom. A partial is an element."""

    __slots__ = ("_best",)
    kinds = NUMBERS
    decimals = True
    combines = True
    hands_over = True

    def __init__(self) -> None:
        self._best: T | None = None

    @staticmethod
    @abstractmethod
    def _beats(a: Any, b: Any) -> bool:
        """True if ``a`` replaces ``b``."""

    def bottom(self) -> Self:
        return type(self)()

    def fold(self, element: T) -> T:
        element = plain(element)
        if element is None:
            raise TypeError(f"None is the value of an empty {type(self).__name__} and cannot be inserted")
        return element

    def absorb(self, partial: T, actor: int) -> bool:
        if self._best is None or self._beats(partial, self._best):
            self._best = partial
            return True
        return False

    def own(self, actor: int) -> Self:
        part = self.bottom()
        part._best = self._best
        return part

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        return other._best is not None and self.absorb(other._best, 0)

    def leq(self, other: Self) -> bool:
        if self._best is None or other._best is None:
            return self._best is None
        return not self._beats(self._best, other._best)

    @property
    def value(self) -> T | None:
        return self._best

    def to_wire(self) -> type_of_wire:
        return element_to_wire(self._best)

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        fresh._best = element_from_wire(wire)
        return fresh


class Max(_Extreme[T]):
    """The largest element; None while empty."""

    __slots__ = ()
    tag: ClassVar[str] = "max"
    compact: ClassVar[bool] = True

    @staticmethod
    def _beats(a: Any, b: Any) -> bool:
        return precedes(b, a)

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        numbers = number_column(column)
        return None if numbers is None else groups.largest(numbers).tolist()


class Min(_Extreme[T]):
    """The smallest element; None while empty."""

    __slots__ = ()
    tag: ClassVar[str] = "min"
    compact: ClassVar[bool] = True

    @staticmethod
    def _beats(a: Any, b: Any) -> bool:
        return precedes(a, b)

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        numbers = number_column(column)
        return None if numbers is None else groups.smallest(numbers).tolist()
