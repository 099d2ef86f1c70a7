"""``GSet``, a set that only grows, and ``CountDistinct``, the number of its elements.

(``ORSet``, from which elements can be removed, has its own file.)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Generic, Self, TypeVar

from wcrdt.codec import element_from_wire, element_to_wire, require
from wcrdt.elements import NUMBERS, element_of, identity, ordered, plain, precedes
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import are_known_elements, int_column, rows_of
from wcrdt.lattices.folding import require_same

T = TypeVar("T")
V = TypeVar("V")


class GrowingSet(Lattice[T, V], Generic[T, V]):
    """Elements that were inserted, each once; what is read, V, is up to the subclass."""

    __slots__ = ("_members",)
    gathers: ClassVar[bool] = True
    kinds = NUMBERS
    combines = True
    hands_over = True

    def __init__(self) -> None:
        self._members: set[Hashable] = set()

    def bottom(self) -> Self:
        return type(self)()

    def check(self, element: T) -> None:
        plain(element)

    def check_many(self, elements: Any) -> None:
        if not are_known_elements(elements):
            super().check_many(elements)

    def insert(self, element: T, *, actor: int = 0) -> Self:
        return self._add({identity(plain(element))})

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        numbers = int_column(elements)
        if numbers is not None:
            return self._add(set(numbers.tolist()))
        return self._add({identity(plain(element)) for element in rows_of(elements)})

    def _add(self, members: set[Hashable]) -> Self:
        delta = self.bottom()
        delta._members = members - self._members
        self._members |= delta._members
        return delta

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        before = len(self._members)
        self._members |= other._members
        return len(self._members) > before

    def leq(self, other: Self) -> bool:
        return self._members <= other._members

    def _ordered(self) -> tuple[T, ...]:
        return tuple(map(element_of, ordered(self._members)))

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, element: object) -> bool:
        return identity(plain(element)) in self._members

    def to_wire(self) -> type_of_wire:
        return [element_to_wire(element) for element in self._ordered()]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        fresh._members = set(map(identity, ascending_from_wire(wire)))
        return fresh


class GSet(GrowingSet[T, tuple[T, ...]]):
    """A growing set; the value is a tuple in the order of elements (a Python set would merge 1 and True)."""

    __slots__ = ()
    tag: ClassVar[str] = "gset"

    @property
    def value(self) -> tuple[T, ...]:
        return self._ordered()


class CountDistinct(GrowingSet[T, int]):
    """How many different elements were inserted, exactly: it holds all of them, as ``GSet`` does."""

    __slots__ = ()
    tag: ClassVar[str] = "count-distinct"

    @property
    def value(self) -> int:
        return len(self._members)


def ascending_from_wire(wire: type_of_wire) -> list[Any]:
    """Elements that must ascend strictly, or ``DecodeError``."""
    require(type(wire) is list, "a list of elements was expected")
    elements = [element_from_wire(part) for part in wire]
    require(all(map(precedes, elements, elements[1:])), "elements must ascend, each once")
    return elements
