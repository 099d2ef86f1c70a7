"""A bag of rows of integers, kept as columns: what a partition sets aside until its window is complete."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt import DecodeError, Lattice


class Columns(tuple[NDArray[np.int64], ...]):
    """Columns of one length; equal if all their numbers are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and np.array_equal(self, other)

    __hash__ = None  # type: ignore[assignment]


class Bag(Lattice[tuple[int, ...], Columns]):
    """Rows of ``width`` int64, in the order of their insertion by each actor; the value is their columns.

    Of one actor's rows two states hold prefixes of the same sequence, so the longer one is the join.
    """

    __slots__ = ("_pieces", "width")
    tag: ClassVar[str] = "nexmark-bag"

    def __init__(self, width: int) -> None:
        self.width = width
        self._pieces: dict[int, list[NDArray[np.int64]]] = {}  # actor -> pieces of shape (width, rows)

    def bottom(self) -> Self:
        return type(self)(self.width)

    def shape(self) -> int:
        return self.width

    def _rows(self, actor: int) -> NDArray[np.int64]:
        pieces = self._pieces.get(actor)
        if not pieces:
            return np.empty((self.width, 0), dtype=np.int64)
        if len(pieces) > 1:
            pieces[:] = [np.concatenate(pieces, axis=1)]
        return pieces[0]

    def insert(self, element: tuple[int, ...], *, actor: int = 0) -> Self:
        return self.insert_many(tuple(np.array([value], dtype=np.int64) for value in element), actor=actor)

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Columns of int64, one for each position. The delta is the actor's whole sequence, shared until it grows."""
        columns = elements if isinstance(elements, tuple) else tuple(zip(*elements, strict=True))
        piece = np.array(columns, dtype=np.int64).reshape(self.width, -1)
        if piece.shape[1]:
            self._pieces.setdefault(actor, []).append(piece)
        delta = self.bottom()
        if actor in self._pieces:
            delta._pieces[actor] = list(self._pieces[actor])
        return delta

    def merge(self, other: Self) -> bool:
        changed = False
        for actor in sorted(other._pieces):
            theirs = other._rows(actor)
            if theirs.shape[1] > self._rows(actor).shape[1]:
                self._pieces[actor] = [theirs]
                changed = True
        return changed

    def leq(self, other: Self) -> bool:
        return all(self._rows(actor).shape[1] <= other._rows(actor).shape[1] for actor in self._pieces)

    @property
    def value(self) -> Columns:
        pieces = [self._rows(actor) for actor in sorted(self._pieces)]
        together = np.concatenate(pieces, axis=1) if pieces else np.empty((self.width, 0), dtype=np.int64)
        return Columns(together)

    def to_wire(self) -> Any:
        return [[actor, self._rows(actor).astype("<i8").tobytes()] for actor in sorted(self._pieces)]

    def from_wire(self, wire: Any) -> Self:
        fresh = self.bottom()
        try:
            for actor, data in wire:
                rows = np.frombuffer(data, dtype="<i8").astype(np.int64).reshape(self.width, -1)
                if type(actor) is not int or rows.shape[1] == 0 or actor <= max(fresh._pieces, default=actor - 1):
                    raise ValueError(f"rows of actor {actor!r}")
                fresh._pieces[actor] = [rows]
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not a bag of width {self.width}: {error}") from error
        return fresh
