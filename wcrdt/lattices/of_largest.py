"""``OfLargest``: another lattice of the elements with the largest key alone, as a bag of the highest bids.

The lexicographic product of a chain and a lattice: of two keys the larger one wins with all that came with it, and
what came with equal keys is joined.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from wcrdt.codec import element_from_wire, element_to_wire, require
from wcrdt.elements import Element, plain, precedes
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import Groups, are_known_elements, gathered, number_column, take
from wcrdt.lattices.counted import Bag
from wcrdt.lattices.folding import Folding, require_combining, require_same
from wcrdt.lattices.keyed.keys import Unfit, check_all_texts, key_columns
from wcrdt.lattices.sets import GrowingSet

E = TypeVar("E")
V = TypeVar("V")
Partial = tuple[Element, Any]
"""A key, and a column of the elements that came with it."""


class OfLargest(Folding[tuple[Element, E], tuple[Element, V] | None], Generic[E, V]):
    """``insert((key, element))``; the value is the largest key and the inner lattice's value of its elements.

    Args: ``inner``: any lattice of elements without an order among them. Raises ``TypeError`` for others.
    """

    __slots__ = ("_inner", "_key")
    tag: ClassVar[str] = "of-largest"
    combines = True
    hands_over = True

    def __init__(self, inner: Lattice[E, V]) -> None:
        if not (inner.gathers and inner.combines):
            raise TypeError(f"OfLargest takes a lattice whose elements have no order, not a {inner.tag}")
        self._key: Element = None
        self._inner: Any = inner.bottom()

    def bottom(self) -> Self:
        return type(self)(self._inner)

    def shape(self) -> type_of_wire:
        return [self._inner.tag, self._inner.shape()]

    def fold(self, element: tuple[Element, E]) -> Partial:
        key, one = element
        key = plain(key)
        if key is None:
            raise TypeError("None cannot be a key of OfLargest; leave the element out")
        self._inner.check(one)
        return key, [one]

    def fold_groups(self, column: Any, groups: Groups) -> list[Partial] | None:
        if not isinstance(column, tuple) or len(column) != 2:
            return None
        keys, elements = number_column(column[0]), column[1]
        if keys is None:
            return None
        if not (isinstance(self._inner, Bag | GrowingSet) and are_known_elements(elements)):
            elements = gathered(elements)
            if not self._takes_column(elements):
                return None
        if len(groups.starts) == 1 and groups.order is None:
            largest = keys.max()
            return [(largest.item(), take(elements, np.flatnonzero(keys == largest)))]
        best = groups.largest(keys)
        hits = np.flatnonzero(groups.arranged(keys) == np.repeat(best, groups.sizes()))
        rows = hits if groups.order is None else groups.order[hits]
        each = np.split(rows, np.searchsorted(hits, groups.starts[1:]))
        return [(key, take(elements, mine)) for key, mine in zip(best.tolist(), each, strict=True)]

    def _takes_column(self, column: Any) -> bool:
        """Whether the inner lattice refuses none of these elements; False: that is seen row by row."""
        if not isinstance(self._inner, Bag | GrowingSet):
            self._inner.bottom().check_many(column)
            return True
        keys = key_columns(column)
        try:
            check_all_texts(keys) if keys is not None else None
        except Unfit:
            return False
        return keys is not None

    def absorb(self, partial: Partial, actor: int) -> bool:
        key, elements = partial
        if self._key is not None and precedes(key, self._key):
            return False
        before = None
        if self._key is None or precedes(self._key, key):
            self._key, self._inner = key, self._inner.bottom()
        else:
            before = self._inner.copy()
        self._inner.insert_many(elements, actor=actor)
        return before is None or not self._inner.leq(before)

    def own(self, actor: int) -> Self:
        return self._with(self._key, self._inner.copy())

    def _with(self, key: Element, inner: Lattice[E, V]) -> Self:
        fresh = self.bottom()
        fresh._key, fresh._inner = key, inner
        return fresh

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        if other._key is None or (self._key is not None and precedes(other._key, self._key)):
            return False
        if self._key is None or precedes(self._key, other._key):
            self._key, self._inner = other._key, other._inner.copy()
            return True
        return self._inner.merge(other._inner)

    def combine(self, other: Self) -> None:
        require_combining(self, other)
        keys = [each._key for each in (self, other) if each._key is not None]
        if not keys:
            return
        largest = keys[-1] if precedes(keys[0], keys[-1]) else keys[0]
        found = self._inner.bottom()
        for each in (self, other):
            if each._key is not None and not precedes(each._key, largest):
                found.combine(each._inner)
        self._key, self._inner = largest, found

    def leq(self, other: Self) -> bool:
        if self._key is None or other._key is None:
            return self._key is None
        if precedes(self._key, other._key) or precedes(other._key, self._key):
            return precedes(self._key, other._key)
        return self._inner.leq(other._inner)

    @property
    def value(self) -> tuple[Element, V] | None:
        """The key and the value of its elements; None while empty."""
        return None if self._key is None else (self._key, self._inner.value)

    def to_wire(self) -> type_of_wire:
        return [] if self._key is None else [element_to_wire(self._key), self._inner.to_wire()]

    def from_wire(self, wire: type_of_wire) -> Self:
        require(type(wire) is list and len(wire) in (0, 2), "a key with a value of its elements was expected")
        if not wire:
            return self.bottom()
        key = element_from_wire(wire[0])
        require(key is not None, "a key is missing")
        fresh = self._with(key, self._inner.from_wire(wire[1]))
        counts_elements = isinstance(self._inner, Bag | GrowingSet)
        require(not counts_elements or fresh._inner != self._inner.bottom(), "a key without elements")
        return fresh
