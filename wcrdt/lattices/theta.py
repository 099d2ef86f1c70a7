"""``ThetaSketch``: an approximate count of distinct elements whose merge is exact (extra ``sketches``).

Of the sketches in use this one keeps the laws. Its state is the k smallest hashes of all elements and the next one as
bound (theta), a function of the set of elements. Source: Dasgupta et al., "A framework for estimating stream expression
cardinalities" (ICDT 2016). Hashes and bytes are those of Apache DataSketches.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt.codec import DecodeError, encode_element, require
from wcrdt.elements import Element, plain
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import rows_of
from wcrdt.lattices.folding import require_same

_INT64 = 2**63
UNBOUNDED = 2**63 - 1
"""The bound of a sketch that holds all hashes: each is from 1 on and below it."""

# A serialised compact sketch: https://github.com/apache/datasketches-cpp/blob/master/theta/include/compact_theta_sketch_parser_impl.hpp
_HEAD, _COUNT, _BOUND = struct.Struct("<BBBBBBH"), struct.Struct("<Ixxxx"), struct.Struct("<q")
_LAYOUT = 3, 3, 0, 0
"""The version, the family of compact sketches, and two unused sizes."""
_FLAGS = 0x1A
"""Flags: read-only, compact and ordered."""
_SEED_HASH = 0x93CC


def _library() -> Any:
    try:
        import datasketches
    except ImportError as error:
        raise ImportError("ThetaSketch needs datasketches: pip install 'holon-streams[sketches]'") from error
    return datasketches


class ThetaSketch(Lattice[Element, float]):
    """Distinct elements, estimated; exact up to ``2**lg_k``. The relative error is about ``1 / sqrt(2**lg_k)``.

    Ints of 64 bits and text are hashed as other users of DataSketches hash them, all else by canonical bytes.
    """

    __slots__ = ("_compact", "_lg_k", "_union")
    tag: ClassVar[str] = "theta"
    gathers: ClassVar[bool] = True
    combines = True

    def __init__(self, lg_k: int = 12) -> None:
        if not 5 <= lg_k <= 26:
            raise ValueError(f"lg_k of a theta sketch is between 5 and 26, not {lg_k}")
        self._lg_k = lg_k
        _library()  # raises early if it is missing
        self._union: Any = None  # made at need
        self._compact: Any = None

    def bottom(self) -> Self:
        return type(self)(self._lg_k)

    def shape(self) -> type_of_wire:
        return self._lg_k

    def check(self, element: Element) -> None:
        plain(element)

    def insert(self, element: Element, *, actor: int = 0) -> Self:
        return self._add([element])

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        return self._add(rows_of(elements))

    def _add(self, elements: list[Element]) -> Self:
        hashed = [hashable(plain(element)) for element in elements]
        sketch = _library().update_theta_sketch(self._lg_k)
        for element in hashed:
            sketch.update(element)
        delta = self.bottom()
        delta._take(sketch)
        self._take(sketch)
        return delta

    def _take(self, sketch: Any) -> None:
        if self._union is None:
            self._union = _library().theta_union(self._lg_k)
        self._union.update(sketch)
        self._compact = None

    @property
    def _result(self) -> Any:
        """The canonical form: compact, ordered, trimmed to k hashes."""
        if self._compact is None:
            self._compact = (self._union or _library().theta_union(self._lg_k)).get_result()
        return self._compact

    def _mark(self) -> tuple[int, int]:
        """Changes whenever the state does: theta only falls, and under one theta the hashes only become more."""
        result = self._result
        return result.theta64, result.num_retained

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        if other._result.is_empty():
            return False
        before = self._mark()
        self._take(other._result)
        return self._mark() != before

    def leq(self, other: Self) -> bool:
        return not other.copy().merge(self)

    @property
    def value(self) -> float:
        """The estimate: a whole number while exact, else a float that is equal for equal bytes."""
        return self._result.get_estimate()

    @property
    def exact(self) -> bool:
        """True while no element had to be left out."""
        return not self._result.is_estimation_mode()

    def bounds(self, deviations: int = 2) -> tuple[float, float]:
        """Lower and upper bound at 1, 2 or 3 standard deviations."""
        return self._result.get_lower_bound(deviations), self._result.get_upper_bound(deviations)

    def hashes(self) -> tuple[NDArray[np.int64], int]:
        """The hashes that it holds, ascending, and the bound below which they are."""
        return np.fromiter(self._result, np.int64, self._result.num_retained), self._result.theta64

    def of_hashes(self, hashes: NDArray[np.int64], bound: int) -> Self:
        """A sketch of the same shape that holds these, as ``hashes`` gives them."""
        count = len(hashes)
        if count == 0:
            return self.bottom()
        longs = 3 if bound < UNBOUNDED else 2 if count > 1 else 1
        head = [_HEAD.pack(longs, *_LAYOUT, _FLAGS, _SEED_HASH)]
        head += [] if longs == 1 else [_COUNT.pack(count)]
        head += [_BOUND.pack(bound)] if longs == 3 else []
        fresh = self.bottom()
        fresh._take(_library().compact_theta_sketch.deserialize(b"".join([*head, hashes.astype("<i8").tobytes()])))
        return fresh

    def to_wire(self) -> type_of_wire:
        """DataSketches' serialised compact sketch."""
        return self._result.serialize()

    def from_wire(self, wire: type_of_wire) -> Self:
        require(type(wire) is bytes, "bytes of a theta sketch were expected")
        fresh = self.bottom()
        try:
            sketch = _library().compact_theta_sketch.deserialize(wire)
        except (ValueError, IndexError, RuntimeError, MemoryError) as error:
            raise DecodeError(f"damaged theta sketch: {error}") from None
        hashes = list(sketch)
        require(sketch.serialize() == wire, "a theta sketch is not in its shortest form")
        require(all(a < b for a, b in zip([0, *hashes], [*hashes, sketch.theta64], strict=True)), "hashes must ascend")
        require(len(hashes) <= 2**self._lg_k, "a theta sketch holds too many hashes")
        require(sketch.theta64 == UNBOUNDED or len(hashes) == 2**self._lg_k, "a theta sketch lost hashes")
        if not sketch.is_empty():
            fresh._take(sketch)
        return fresh


def hashable(element: Element) -> int | str:
    """The int64, or the text that is not empty, as which DataSketches hashes a plain element."""
    if type(element) is int and -_INT64 <= element < _INT64:
        return element
    return element if type(element) is str and element else encode_element(element).hex()
