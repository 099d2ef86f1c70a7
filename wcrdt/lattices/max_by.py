"""``MaxBy`` and ``MinBy``: which payload has the largest or smallest key (argmax and argmin)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable
from typing import Any, ClassVar, Literal, Self

import numpy as np

from wcrdt.codec import element_from_wire, element_to_wire, require
from wcrdt.elements import Element, element_of, identity, ordered, plain, precedes
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, number_column, rows_of, take
from wcrdt.lattices.folding import Folding, require_same

Ties = Literal["all", "first"]
Partial = tuple[Element, Collection[Hashable]]


class _Argument(Folding[tuple[Element, Element], tuple[Element, Any] | None]):
    """The best key and the distinct payloads that came with it. A partial is ``(key, identities of payloads)``.

    Args: ``ties="all"`` keeps all payloads of the best key, equal ones once. ``ties="first"`` keeps the one that comes
    first in the order of elements, so that no replica depends on what it saw first.
    """

    __slots__ = ("_key", "_payloads", "_ties")
    combines = True
    hands_over = True

    def __init__(self, ties: Ties = "all") -> None:
        if ties not in ("all", "first"):
            raise ValueError(f'ties is "all" or "first", not {ties!r}')
        self._ties: Ties = ties
        self._key: Element = None
        self._payloads: set[Hashable] = set()

    @staticmethod
    @abstractmethod
    def _beats(a: Element, b: Element) -> bool:
        """True if the key ``a`` replaces ``b``."""

    @staticmethod
    @abstractmethod
    def _best_of(groups: Groups, keys: Any) -> Any:
        """The best key of each group."""

    def bottom(self) -> Self:
        return type(self)(self._ties)

    def shape(self) -> type_of_wire:
        return self._ties

    def fold(self, element: tuple[Element, Element]) -> Partial:
        key, payload = element
        key = plain(key)
        if key is None:
            raise TypeError(f"None cannot be a key of {type(self).__name__}; leave the element out")
        return key, (identity(plain(payload)),)

    def fold_groups(self, column: Any, groups: Groups) -> list[Partial] | None:
        if not isinstance(column, tuple) or len(column) != 2:
            return None
        keys = number_column(column[0])
        if keys is None or not _known_plain(column[1]):
            return None
        best = self._best_of(groups, keys)
        hits = np.flatnonzero(groups.arranged(keys) == np.repeat(best, groups.sizes()))
        rows: Indices = hits if groups.order is None else groups.order[hits]
        payloads = [identity(plain(payload)) for payload in rows_of(take(column[1], rows))]
        borders = [*np.searchsorted(hits, groups.starts).tolist(), len(payloads)]
        found = zip(best.tolist(), borders, borders[1:], strict=False)
        return [(key, tuple(payloads[start:end])) for key, start, end in found]

    def absorb(self, partial: Partial, actor: int) -> bool:
        key, payloads = partial
        if self._key is not None and self._beats(self._key, key):
            return False
        before = self._payloads
        better = self._key is None or self._beats(key, self._key)
        if not better and before.issuperset(payloads):
            return False
        self._key = key
        # Sets are replaced, never edited: own() shares them.
        self._payloads = self._kept(set(payloads) if better else before.union(payloads))
        return better or self._payloads != before

    def _kept(self, payloads: set[Hashable]) -> set[Hashable]:
        if self._ties == "all" or len(payloads) == 1:
            return payloads
        return {ordered(payloads)[0]}

    def own(self, actor: int) -> Self:
        part = self.bottom()
        part._key, part._payloads = self._key, self._payloads
        return part

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        return other._key is not None and self.absorb((other._key, other._payloads), 0)

    def leq(self, other: Self) -> bool:
        if self._key is None or other._key is None:
            return self._key is None
        if self._beats(self._key, other._key) or self._beats(other._key, self._key):
            return self._beats(other._key, self._key)
        return self._kept(self._payloads | other._payloads) == other._payloads

    @property
    def value(self) -> tuple[Element, Any] | None:
        """``(key, payloads in order)`` with all ties, ``(key, payload)`` with the first, None while empty."""
        if self._key is None:
            return None
        payloads = tuple(map(element_of, ordered(self._payloads)))
        return (self._key, payloads if self._ties == "all" else payloads[0])

    def to_wire(self) -> type_of_wire:
        if self._key is None:
            return []
        return [element_to_wire(self._key), *(element_to_wire(element_of(p)) for p in ordered(self._payloads))]

    def from_wire(self, wire: type_of_wire) -> Self:
        require(type(wire) is list and len(wire) != 1, "a key with its payloads was expected")
        fresh = self.bottom()
        if not wire:
            return fresh
        key, *payloads = map(element_from_wire, wire)
        require(key is not None, "a key is missing")
        require(all(map(precedes, payloads, payloads[1:])), "payloads must ascend")
        require(self._ties == "all" or len(payloads) == 1, "one payload was expected")
        fresh._key, fresh._payloads = key, set(map(identity, payloads))
        return fresh


def _known_plain(payload: Any) -> bool:
    """True if no row can be refused: only then may the rows that lose be skipped unseen."""
    if isinstance(payload, tuple):
        return len(payload) > 0 and all(map(_known_plain, payload))
    return isinstance(payload, np.ndarray) and payload.ndim == 1 and payload.dtype.kind in "iub"


class MaxBy(_Argument):
    """The payloads with the largest key: ``insert((price, bid))``."""

    __slots__ = ()
    tag: ClassVar[str] = "maxby"
    compact: ClassVar[bool] = True

    @staticmethod
    def _beats(a: Element, b: Element) -> bool:
        return precedes(b, a)

    @staticmethod
    def _best_of(groups: Groups, keys: Any) -> Any:
        return groups.largest(keys)


class MinBy(_Argument):
    """The payloads with the smallest key."""

    __slots__ = ()
    tag: ClassVar[str] = "minby"
    compact: ClassVar[bool] = True

    @staticmethod
    def _beats(a: Element, b: Element) -> bool:
        return precedes(a, b)

    @staticmethod
    def _best_of(groups: Groups, keys: Any) -> Any:
        return groups.smallest(keys)
