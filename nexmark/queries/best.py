"""The highest price of each pair of keys, kept as columns."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nexmark.queries.bag import Columns
from wcrdt import DecodeError, Lattice
from wcrdt.lattices.keyed.packing import narrow, widened

Rows = NDArray[np.int64]
"""Of shape (3, rows): two keys, by which the columns ascend, each pair once, and the highest value."""


class Best(Lattice[tuple[int, int, int], Columns]):
    """(key, key) -> the highest value inserted; as ``MapOf(Max())`` without an object for each key.

    The value is three columns, ascending by the keys.
    """

    __slots__ = ("_rows",)
    tag: ClassVar[str] = "nexmark-best-2"

    def __init__(self) -> None:
        self._rows: Rows = np.empty((3, 0), dtype=np.int64)  # never changed in place

    def bottom(self) -> Self:
        return type(self)()

    def insert(self, element: tuple[int, int, int], *, actor: int = 0) -> Self:
        return self.insert_many(tuple(np.array([value], dtype=np.int64) for value in element), actor=actor)

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Columns of int64: two of keys and one of values. The delta is the best of what was inserted."""
        columns = elements if isinstance(elements, tuple) else tuple(zip(*elements, strict=True))
        delta = self.bottom()
        delta._rows = highest(np.array(columns, dtype=np.int64).reshape(3, -1))
        self.merge(delta)
        return delta

    def merge(self, other: Self) -> bool:
        before = self._rows
        self._rows = _joined(before, other._rows)
        return self._rows is not before

    def leq(self, other: Self) -> bool:
        return _joined(other._rows, self._rows) is other._rows

    @property
    def value(self) -> Columns:
        return Columns(self._rows)

    def to_wire(self) -> Any:
        return [narrow(row) for row in self._rows]

    def from_wire(self, wire: Any) -> Self:
        fresh = self.bottom()
        try:
            if type(wire) is not list or len(wire) != 3:
                raise ValueError("not three columns")
            rows = np.array([widened(column) for column in wire], dtype=np.int64)
            if not _ascends(rows):
                raise ValueError("the keys do not ascend")
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not the best of pairs of keys: {error}") from error
        fresh._rows = rows
        return fresh


def highest(rows: Rows) -> Rows:
    """The highest value of each pair of keys, ascending by the keys."""
    if _ascends(rows):
        return rows
    order = np.argsort(rows[0], kind="stable")  # of two such columns, one behind the other, in one pass
    ordered = rows[:, order]
    if ((ordered[0, 1:] == ordered[0, :-1]) & (ordered[1, 1:] < ordered[1, :-1])).any():
        ordered = rows[:, np.lexsort((rows[1], rows[0]))]
    changes = (ordered[0, 1:] != ordered[0, :-1]) | (ordered[1, 1:] != ordered[1, :-1])
    first = np.flatnonzero(np.concatenate([[True], changes]))
    return np.vstack([ordered[:2, first], np.maximum.reduceat(ordered[2], first)])


def _ascends(rows: Rows) -> bool:
    """True if each pair of keys is above the one before it."""
    first, second = rows[0], rows[1]
    rises = first[1:] > first[:-1]
    return bool(rises.all() or (rises | ((first[1:] == first[:-1]) & (second[1:] > second[:-1]))).all())


def _joined(mine: Rows, theirs: Rows) -> Rows:
    """The best of both; ``mine`` itself if nothing of it changes."""
    if theirs.shape[1] == 0:
        return mine
    if mine.shape[1] == 0:
        return theirs
    joined = highest(np.concatenate([mine, theirs], axis=1))
    return mine if joined.shape == mine.shape and np.array_equal(joined, mine) else joined
