"""``TopK``: the k items with the highest scores, with ties decided by the item and never by arrival."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from operator import is_
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from wcrdt.codec import element_from_wire, element_to_wire, require, rows_from_wire
from wcrdt.distinct import distinct
from wcrdt.elements import Element, identity, order_key, plain, precedes
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import Indices, int_column, rows_of, take
from wcrdt.lattices.folding import require_same

S = TypeVar("S")
T = TypeVar("T")
Pairs = dict[Hashable, tuple[Element, Element]]


class TopK(Lattice[tuple[S, T], tuple[tuple[S, T], ...]], Generic[S, T]):
    """The k best of all inserted pairs ``(score, item)``, best first; of equal scores the smaller item comes first.

    Args: ``distinct=True`` ranks items, each with its highest score; ``distinct=False`` ranks pairs, so that an item
    may be there with several scores (an equal pair counts once).

    Law: dropping what is not among the k best never loses a later result. A dropped pair has k better ones before it,
    and these, or for items still better pairs of the same items, are in every state above.
    """

    __slots__ = ("_distinct", "_k", "_pairs")
    tag: ClassVar[str] = "topk"
    gathers: ClassVar[bool] = True
    combines = True

    def __init__(self, k: int, *, distinct: bool = True) -> None:
        if k < 1:
            raise ValueError(f"TopK needs k of at least 1, got {k}")
        self._k = k
        self._distinct = distinct
        self._pairs: Pairs = {}  # at most k, in rank order; by item if distinct, else by pair

    def bottom(self) -> Self:
        return type(self)(self._k, distinct=self._distinct)

    def shape(self) -> type_of_wire:
        return [self._k, int(self._distinct)]

    def check(self, element: tuple[S, T]) -> None:
        _pair(element)

    def insert(self, element: tuple[S, T], *, actor: int = 0) -> Self:
        return self._add([_pair(element)])

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        if isinstance(elements, tuple) and len(elements) == 2:
            candidates = self._candidates(elements[0])
            if candidates is not None and isinstance(elements[1], np.ndarray):
                elements = take(elements, candidates)
        return self._add([_pair(row) for row in rows_of(elements)])

    def _candidates(self, scores: Any) -> Indices | None:
        """Rows that can still matter, by score alone: not below the k-th pair of the state, nor the k-th score."""
        column = int_column(scores)
        if column is None or len(column) == 0:
            return None
        floor = int(column.min())
        if not self._distinct:
            floor = int(distinct(column)[-self._k :][0])
        worst = list(self._pairs.values())[-1][0] if len(self._pairs) == self._k else None
        if type(worst) is int:
            floor = max(floor, min(worst, 2**63 - 1))
        return np.flatnonzero(column >= floor)

    def _add(self, pairs: list[tuple[Element, Element]]) -> Self:
        """Add pairs; the delta has those that are now in the state."""
        delta = self.bottom()
        self._join(pairs)
        keys = dict.fromkeys(self._key(pair) for pair in pairs)
        delta._join([self._pairs[key] for key in keys if key in self._pairs])
        return delta

    def _key(self, pair: tuple[Element, Element]) -> Hashable:
        return identity(pair[1] if self._distinct else pair)

    def _join(self, pairs: Iterable[tuple[Element, Element]]) -> bool:
        worst = list(self._pairs.values())[-1] if len(self._pairs) == self._k else None
        better: Pairs = {}
        for pair in pairs:
            if worst is not None and precedes(pair[0], worst[0]):
                continue
            key = self._key(pair)
            known = better.get(key) or self._pairs.get(key)
            if known is None or precedes(known[0], pair[0]):
                better[key] = pair
        if not better:
            return False
        joined = {**self._pairs, **better}
        ranked = sorted(joined.items(), key=lambda entry: order_key(entry[1][1]))
        ranked.sort(key=lambda entry: order_key(entry[1][0]), reverse=True)  # stable: items stay in order
        before = self._pairs
        self._pairs = dict(ranked[: self._k])
        return any(before.get(key) is not pair for key, pair in self._pairs.items())

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        return self._join(other._pairs.values())

    def leq(self, other: Self) -> bool:
        return not other.copy().merge(self)

    @property
    def value(self) -> tuple[tuple[S, T], ...]:
        return tuple(self._pairs.values())  # type: ignore[arg-type]

    def to_wire(self) -> type_of_wire:
        return [[element_to_wire(score), element_to_wire(item)] for score, item in self._pairs.values()]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        pairs = [(element_from_wire(score), element_from_wire(item)) for score, item in rows_from_wire(wire, 2)]
        require(all(score is not None for score, _ in pairs), "a score is missing")
        fresh._join(pairs)
        ranked = fresh._pairs.values()
        in_order = len(ranked) == len(pairs) and all(map(is_, ranked, pairs))  # == would take 1 for True
        require(in_order, "pairs must be in rank order, each once, at most k")
        return fresh


def _pair(element: tuple[Any, Any]) -> tuple[Element, Element]:
    try:
        score, item = element
    except (TypeError, ValueError):
        raise TypeError(f"a TopK takes (score, item), got {element!r:.100}") from None
    if score is None:
        raise TypeError("None cannot be a score of a TopK; leave the element out")
    return plain(score), plain(item)
