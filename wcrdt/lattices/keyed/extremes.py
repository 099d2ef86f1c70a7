"""The largest or smallest number of each key, as one column of int64 or of float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt.codec import require
from wcrdt.column_memory import copied, filled, kept
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices
from wcrdt.lattices.extremes import Max, Min
from wcrdt.lattices.keyed.int_index import with_room
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask, numbers_of_column
from wcrdt.lattices.keyed.packing import narrow, widened

_INTS, _FLOATS = "i", "f"


class ExtremeLeaf(Leaf):
    """``Max`` or ``Min``. Rows without an element hold what every element beats, or is equal to."""

    __slots__ = ("_column", "_largest")

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._largest = type(inner) is Max
        assert self._largest or type(inner) is Min, inner.tag
        self._column: NDArray[Any] | None = None

    def empty(self) -> Self:
        return type(self)(self.inner)

    def _of(self, column: NDArray[Any]) -> Self:
        fresh = self.empty()
        fresh._column = column
        return fresh

    def _bottom(self, dtype: Any) -> Any:
        if np.dtype(dtype).kind == "f":
            return -np.inf if self._largest else np.inf
        return np.iinfo(np.int64).min if self._largest else np.iinfo(np.int64).max

    def _roomy(self, height: int, dtype: Any) -> NDArray[Any]:
        column = np.empty(0, dtype) if self._column is None else self._column
        if column.dtype != dtype:
            raise Unfit
        self._column = with_room(column, height, self._bottom(dtype))
        return self._column

    def _better(self, one: Any, other: Any) -> NDArray[Any]:
        return np.maximum(one, other) if self._largest else np.minimum(one, other)

    def fold(self, column: Any, groups: Groups) -> NDArray[Any]:
        numbers = numbers_of_column(column)
        if numbers.dtype.kind == "f":
            if np.isnan(numbers).any():
                raise Unfit
            numbers = numbers + 0.0  # minus zero is zero
        return groups.largest(numbers) if self._largest else groups.smallest(numbers)

    def prepare(self, rows: Indices, folded: NDArray[Any], actor: int, height: int) -> tuple[Any, Mask]:
        before = self._roomy(height, folded.dtype)[rows]
        after = self._better(before, folded)
        return (rows, after), after != before

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Any, bool]:
        assert other._column is not None, "a row is written as it comes"
        prepared, changed = self.prepare(rows, other._column[: len(rows)], 0, height)
        return prepared, bool(changed.any())

    def commit(self, prepared: tuple[Indices, NDArray[Any]]) -> None:
        assert self._column is not None
        rows, after = prepared
        self._column[rows] = after

    def leq(self, rows: Indices, other: Self) -> bool:
        assert self._column is not None and other._column is not None, "a row is written as it comes"
        if self._column.dtype != other._column.dtype:
            raise Unfit
        theirs = other._column[rows]
        return bool((self._better(theirs, self._column[: len(rows)]) == theirs).all())

    def own(self, rows: Indices, actor: int) -> Self:
        assert self._column is not None
        return self._of(self._column[rows])

    def copy(self, rows: int) -> Self:
        assert self._column is not None
        return self._of(copied(self._column[:rows]))

    def spread(self, rows: Indices, height: int) -> Self:
        assert self._column is not None
        column = filled(height, self._bottom(self._column.dtype), self._column.dtype)
        column[rows] = self._column[: len(rows)]
        return self._of(column)

    def values(self, rows: Indices) -> list[Any]:
        assert self._column is not None
        return self._column[rows].tolist()

    def columns(self, rows: Indices) -> NDArray[Any]:
        assert self._column is not None
        return self._column[rows]

    def to_wire(self, rows: Indices) -> type_of_wire:
        assert self._column is not None
        column = self._column[rows]
        return [_FLOATS, column.astype("<f8").tobytes()] if column.dtype.kind == "f" else [_INTS, narrow(column)]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        require(type(wire) is list and len(wire) == 2, "a kind of numbers and a column were expected")
        kind: Any = wire[0]
        data: Any = wire[1]
        if kind == _INTS:
            column: NDArray[Any] = widened(data)
        else:
            require(kind == _FLOATS and isinstance(data, bytes), "no kind of numbers")
            column = np.frombuffer(data, "<f8").astype(np.float64)
            zeros = column == 0
            require(not np.isnan(column).any() and not np.signbit(column[zeros]).any(), "NaN, or minus zero")
        require(len(column) == height, "a number for each key was expected")
        return self._of(kept(column))

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        found: list[AnyLattice] = []
        for best in self.values(rows):
            each: Any = self.inner.bottom()
            each._best = best
            found.append(each)
        return found

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        return self.of_numbers([each._best for each in lattices])

    def of_numbers(self, numbers: list[Any]) -> Self:
        """A leaf with these numbers. Raises ``Unfit``."""
        return self._of(numbers_of_column(numbers))

    @property
    def size_bytes(self) -> int:
        return 0 if self._column is None else self._column.nbytes
