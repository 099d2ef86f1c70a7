"""The lattice protocol: what every type that can be windowed and broadcast must offer.

Two rules for this file: it knows no concrete lattice, and it does no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import inf
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

E = TypeVar("E")  # what is inserted
V = TypeVar("V")  # what is read

_NUMBERS = {np.dtype(np.int64): int, np.dtype(np.float64): float}
_SMALL_EXPONENT = 900
"""Of ten: a Decimal of 19 digits and an exponent up to it is far from all limits."""
type_of_wire = Any  # None | bool | int | float | str | bytes | list of the same


class Lattice(ABC, Generic[E, V]):
    """A join-semilattice value with delta mutators and canonical bytes.

    An instance is also its own schema: ``bottom()`` and ``from_wire()`` give values of the same shape (the `k` of a
    TopK, the inner lattice of a map). So a job is declared with an instance (Holon, Table 1: ``WCRDT { zero: Type }``).

    Laws, checked by ``wcrdt.laws`` for every type: merge is commutative, associative and idempotent, and ``bottom`` is
    its unit. ``a.leq(b)`` iff merging a into b changes nothing. Mutators only inflate, and merging the returned delta
    into the state before the call gives the state after it. Equal values have equal canonical bytes.

    ``actor`` names who inserts: the runtime passes one number for each partition and track, so that counts of two
    partitions add up instead of hiding each other. Types that need no actor ignore it.
    """

    __slots__ = ()

    tag: ClassVar[str]
    """Name of the type in encoded values; never reused for another layout."""

    compact: ClassVar[bool] = False
    """True where the whole value is about as small as a delta, so that the whole is broadcast."""

    gathers: ClassVar[bool] = False
    """True where ``check`` reads the element alone: elements may be checked when they come and inserted later, as a
    column."""

    kinds: ClassVar[frozenset[type]] = frozenset()
    """Types of which every element that is at least ``least`` is accepted, without a ``check``."""

    least: ClassVar[float] = -inf

    decimals: ClassVar[bool] = False
    """True where a Decimal that ``is_small`` is accepted, too, without a ``check``."""

    combines: ClassVar[bool] = False
    """True where ``combine`` has a meaning: the states of different elements give the state of them all."""

    hands_over: bool = False
    """True where a delta is independent of the value that it comes from; ask ``hands_over`` of this module."""

    def __init_subclass__(cls) -> None:
        """Inherited declarations of these do not hold for inserts, checks and merges of one's own."""
        super().__init_subclass__()
        own = vars(cls)
        if not {"insert", "fold", "check"}.isdisjoint(own) and "kinds" not in own:
            cls.kinds, cls.decimals = frozenset(), False
        if not {"insert", "insert_many"}.isdisjoint(own) and "gathers" not in own:
            cls.gathers = False
        if not {"insert", "merge"}.isdisjoint(own) and {"combine", "combines"}.isdisjoint(own):
            cls.combines = False

    @abstractmethod
    def bottom(self) -> Self:
        """A new least element of the same shape."""

    @abstractmethod
    def merge(self, other: Any) -> bool:  # of the same type: overrides have Self, which pyright would not allow here
        """Join ``other`` into this value; True if this value changed. ``other`` is neither changed nor aliased."""

    @abstractmethod
    def leq(self, other: Any) -> bool:
        """True if this value is below or equal to ``other`` in the lattice order."""

    @abstractmethod
    def insert(self, element: E, *, actor: int = 0) -> Self:
        """Add one element and return the delta: merged into the state before, it gives the state after."""

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Add a column of elements (a sequence or numpy array; a tuple of columns where an element is a tuple).

        Equal to inserting them one by one; types override it with a column-wise version. Returns the delta.
        """
        self.check_many(elements)
        delta = self.bottom()
        for element in _rows(elements):
            delta.merge(self.insert(element, actor=actor))
        return delta

    def check(self, element: E) -> None:
        """Raise what ``insert`` would raise for this element, changing nothing.

        Records and columns check all their parts before they insert the first, so that a refused element leaves no
        half of itself behind.
        """

    def check_many(self, elements: Any) -> None:
        """Raise what ``insert_many`` would raise for these elements, changing nothing."""
        if self._takes_all(elements):
            return
        for element in _rows(elements):
            self.check(element)

    def _takes_all(self, elements: Any) -> bool:
        """Whether they are numbers of a column that need no ``check``."""
        if self.decimals and (scaled := getattr(elements, "scaled", None)) is not None:
            found = scaled()
            return found is not None and not np.count_nonzero(np.abs(found[1]) > _SMALL_EXPONENT)
        if not isinstance(elements, np.ndarray) or elements.ndim != 1:
            return False
        if _NUMBERS.get(elements.dtype) not in self.kinds:
            return False
        return not len(elements) or bool(np.minimum.reduce(elements) >= self.least)  # NaN is not

    @property
    @abstractmethod
    def value(self) -> V:
        """The value that a user reads: an immutable or fresh plain value."""

    @abstractmethod
    def to_wire(self) -> type_of_wire:
        """Plain nested lists and scalars, the same for equal values (maps and sets as sorted lists)."""

    @abstractmethod
    def from_wire(self, wire: type_of_wire) -> Self:
        """A new value of this shape; raises ``wcrdt.codec.DecodeError`` on anything that ``to_wire`` cannot give."""

    def former_wire(self) -> type_of_wire:
        """The wire of this value that earlier releases wrote, where that was another one; ``from_wire`` reads both."""
        return self.to_wire()

    def shape(self) -> type_of_wire:
        """Parameters that two values must share to be merged (part of the encoded form)."""
        return None

    def combine(self, other: Any) -> None:
        """Go on as the state after the inserts of both, which were of *different* elements: those of two windows.

        ``merge`` is for two states of one history, and would hide the counts of the one behind those of the other.
        Types with ``combines`` keep this law: states that were inserted into apart, by whichever actors, combine to the
        bytes to which ``bottom`` and the state of all these elements do. So it is commutative and associative.
        ``other`` is neither changed nor aliased. Raises ``TypeError`` where it has no meaning.
        """
        if not self.combines:
            raise TypeError(f"a {self.tag} cannot be combined with one of other elements")
        self.merge(other)

    def copy(self) -> Self:
        """An independent equal value."""
        fresh = self.bottom()
        fresh.merge(self)
        return fresh

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_wire() == other.to_wire()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


def _rows(elements: Any) -> Iterable[Any]:
    """Rows of a column, or of a tuple of equally long columns; numpy scalars become Python ones."""
    if isinstance(elements, tuple):
        return zip(*(_rows(column) for column in elements), strict=True)
    return elements.tolist() if hasattr(elements, "tolist") else elements


def hands_over(lattice: Lattice[Any, Any]) -> bool:
    """Whether a delta of this type may be used in place of its bytes. That is known of this package's types alone."""
    return lattice.hands_over and type(lattice).__module__.startswith("wcrdt.")
