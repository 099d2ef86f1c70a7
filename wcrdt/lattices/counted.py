"""``Bag`` counts equal elements; ``Quantiles`` counts numbers in buckets of a relative width, without bounds."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from wcrdt.codec import require
from wcrdt.elements import plain
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import height, number_column, rows_of
from wcrdt.lattices.counters import GCounter
from wcrdt.lattices.folding import require_combining, require_same
from wcrdt.lattices.histogram import rank_of
from wcrdt.lattices.keyed.leaves import Leaf
from wcrdt.lattices.keyed.members.counted import BagLeaf, QuantilesLeaf
from wcrdt.lattices.maps import MapOf

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")
Number = int | float | Decimal
_FLOAT, _INT = struct.Struct("<d"), struct.Struct("<q")
_MANTISSA_BITS, _MOST_BITS = 52, 20
_LARGEST = float(np.finfo(np.float64).max)


class Counted(Lattice[T, V], Generic[T, V]):
    """A map from a key of each element to the number of elements with that key; what is read, V, is the subclass's."""

    __slots__ = ("_counts",)
    gathers: ClassVar[bool] = True
    combines = True

    def __init__(self) -> None:
        self._counts: MapOf[Any, int, int] = MapOf(GCounter())

    @property
    def hands_over(self) -> bool:  # type: ignore[override]
        return self._counts.hands_over

    def bottom(self) -> Self:
        return self._with(self._counts.bottom())

    def _with(self, counts: MapOf[Any, int, int]) -> Self:
        """The same type around other counts."""
        fresh = type(self).__new__(type(self))
        fresh._counts = counts
        return fresh

    @abstractmethod
    def _key(self, element: T) -> Any:
        """The key under which an element is counted. Raises ``TypeError`` or ``ValueError`` for a wrong element."""

    @abstractmethod
    def _keys(self, elements: Any) -> Any:
        """The same of a column."""

    def check(self, element: T) -> None:
        self._counts.check((self._key(element), 1))

    def check_many(self, elements: Any) -> None:
        keys = self._keys(elements)
        self._counts.check_many((keys, _ones(keys)))

    def insert(self, element: T, *, actor: int = 0) -> Self:
        return self._with(self._counts.insert((self._key(element), 1), actor=actor))

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        keys = self._keys(elements)
        return self._with(self._counts.insert_many((keys, _ones(keys)), actor=actor))

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        return self._counts.merge(other._counts)

    def combine(self, other: Self) -> None:
        require_combining(self, other)
        self._counts.combine(other._counts)

    def leq(self, other: Self) -> bool:
        return self._counts.leq(other._counts)

    @property
    def count(self) -> int:
        """Number of elements."""
        return sum(self._counts.value.values())

    def to_wire(self) -> type_of_wire:
        return self._counts.to_wire()

    def from_wire(self, wire: type_of_wire) -> Self:
        counts = self._counts.from_wire(wire)
        if not counts.held_as_columns:
            written = counts.to_wire()
            require(not written or type(written[0]) is list, "so many elements are written as columns")
        return self._with(counts)

    # --- by key ---------------------------------------------------------------------------------------------------

    def counts(self) -> dict[Any, Lattice[int, int]]:
        """How often each key was counted, by actor; not to be written."""
        return self._counts.entries()

    def of_counts(self, counts: dict[Any, Lattice[int, int]]) -> Self:
        """The same type with these counts, which it takes over."""
        return self._with(self._counts.of_entries(counts))


class Bag(Counted[T, dict[T, int]], Generic[T]):
    """How often each element was inserted: a multiset. Elements are None, ints, text, bytes and tuples of these."""

    __slots__ = ()
    tag: ClassVar[str] = "bag"
    leaf: ClassVar[type[Leaf]] = BagLeaf

    def _key(self, element: T) -> Any:
        return element

    def _keys(self, elements: Any) -> Any:
        return elements

    @property
    def value(self) -> dict[T, int]:
        """Element -> how often, in the order of elements."""
        return self._counts.value


@dataclass(frozen=True, slots=True)
class Distribution:
    """Numbers by buckets: ``buckets`` are pairs of a bucket's middle and how many numbers it has, ascending."""

    buckets: tuple[tuple[float, int], ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        return sum(count for _, count in self.buckets)

    def quantile(self, q: Number | Fraction) -> float | None:
        """The middle of the bucket that holds the element of rank ``ceil(q * count)``, from 1; None while empty.

        ``q`` is in [0, 1], and 0 is the first element. A float is taken as it is written: 0.9 is nine tenths.
        """
        rank, reached = rank_of(q, self.count), 0
        for middle, count in self.buckets:
            reached += count
            if reached >= rank:
                return middle
        return None


class Quantiles(Counted[Number, Distribution]):
    """Quantiles of numbers of any size, each within ``error`` of the true one (0.01: a hundredth of it).

    As DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
    guarantees", VLDB 2019, section 2): counts in buckets whose width grows with their place. Deviation: buckets divide
    each power of two evenly, as those of HdrHistogram do. So a bucket is the first bits of the float, and no logarithm
    takes part whose last digit differs from machine to machine. No buckets are joined: the state grows with the range.

    Ints and Decimals are rounded to the nearest float first. NaN and infinities are refused. Below 2.3e-308 the error
    is absolute: 2e-310, for an error of 0.01.
    """

    __slots__ = ("_bits",)
    tag: ClassVar[str] = "quantiles"
    leaf: ClassVar[type[Leaf]] = QuantilesLeaf

    def __init__(self, error: float = 0.01) -> None:
        if not 2.0 ** -(_MOST_BITS + 1) <= error < 1:
            raise ValueError(
                f"the error of quantiles is at least {2.0 ** -(_MOST_BITS + 1):.1g} and below 1, not {error}"
            )
        super().__init__()
        self._bits = next(bits for bits in range(_MOST_BITS + 1) if 2.0 ** -(bits + 1) <= error)

    def _with(self, counts: MapOf[Any, int, int]) -> Self:
        fresh = super()._with(counts)
        fresh._bits = self._bits
        return fresh

    def shape(self) -> type_of_wire:
        return self._bits

    def _key(self, element: Number) -> int:
        number = _float(element)
        if number == 0:
            return 0
        return self._bucket(number) if number > 0 else -self._bucket(-number)

    def _bucket(self, number: float) -> int:
        return (_INT.unpack(_FLOAT.pack(number))[0] >> (_MANTISSA_BITS - self._bits)) + 1

    def _keys(self, elements: Any) -> Any:
        return self.buckets_of(elements)

    def buckets_of(self, elements: Any) -> Any:
        """The bucket of each number of a column: an int below 2^31 without its sign.

        Raises ``TypeError`` for what is no number, ``ValueError`` for one that is beyond floats.
        """
        numbers = number_column(elements)
        if numbers is None:
            return [self._key(element) for element in rows_of(elements)]
        floats = numbers.astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(floats))
        if len(wrong):
            _float(numbers[wrong[0]].item())
        buckets = (np.abs(floats).view(np.int64) >> (_MANTISSA_BITS - self._bits)) + 1
        buckets[floats == 0] = 0
        return np.where(floats < 0, -buckets, buckets)

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = super().from_wire(wire)
        most, keys = self.last_bucket, fresh._counts.value
        require(all(type(key) is int and abs(key) <= most for key in keys), "a bucket of no number")
        return fresh

    @property
    def last_bucket(self) -> int:
        """The bucket of the largest float; that of the lowest one has a minus."""
        return self._bucket(_LARGEST)

    @property
    def value(self) -> Distribution:
        counts = self._counts.value
        return self.distribution_of(zip(map(self.middle_of, counts), counts.values(), strict=True))

    @staticmethod
    def distribution_of(buckets: Iterable[tuple[float, int]]) -> Distribution:
        """The value that has these buckets: middles, and numbers of elements."""
        return Distribution(tuple(buckets))

    def quantile(self, q: Number | Fraction) -> float | None:
        """As ``Distribution.quantile``."""
        return self.value.quantile(q)

    def middle_of(self, key: int) -> float:
        """The middle of a bucket."""
        if key == 0:
            return 0.0
        low, high = self._edge(abs(key) - 1), self._edge(abs(key))
        middle = low + (min(high, _LARGEST) - low) / 2
        return middle if key > 0 else -middle

    def _edge(self, bucket: int) -> float:
        return _FLOAT.unpack(_INT.pack(bucket << (_MANTISSA_BITS - self._bits)))[0]


def _float(element: Any) -> float:
    """The nearest float. Raises ``TypeError`` for what is no number, ``ValueError`` for one that is beyond floats."""
    number = plain(element)
    if type(number) not in (int, float, Decimal):
        raise TypeError(f"quantiles take numbers, not {element!r}")
    try:
        found = float(number)
    except OverflowError:
        found = float("inf")
    if not abs(found) <= _LARGEST:
        raise ValueError(f"quantiles take numbers that a float can hold, not {element!r}")
    return found


def _ones(keys: Any) -> Any:
    return np.ones(height(keys), np.int64)
