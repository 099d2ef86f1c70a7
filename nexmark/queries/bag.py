"""A bag of rows of integers, kept as columns: what a partition sets aside until its window is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt import DecodeError, Lattice
from wcrdt.lattices.keyed.packing import narrow, widened


class Columns(tuple[NDArray[np.int64], ...]):
    """Columns of one length; equal if all their numbers are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and np.array_equal(self, other)

    __hash__ = None  # type: ignore[assignment]


Segment = tuple[int, NDArray[np.int64]]
"""Consecutive rows of one actor: the place of the first, and an array of shape (width, rows), never changed."""


class Bag(Lattice[tuple[int, ...], Columns]):
    """Rows of ``width`` int64, in the order of their insertion by each actor; the value is their columns.

    An actor's row has its place in the actor's sequence, so the join is the union of places. A delta holds the places
    that are new.
    """

    __slots__ = ("_segments", "width")
    tag: ClassVar[str] = "nexmark-bag-2"

    def __init__(self, width: int) -> None:
        self.width = width
        self._segments: dict[int, list[Segment]] = {}  # by actor: ascending, apart or adjacent, none empty

    def bottom(self) -> Self:
        return type(self)(self.width)

    def shape(self) -> int:
        return self.width

    def insert(self, element: tuple[int, ...], *, actor: int = 0) -> Self:
        return self.insert_many(tuple(np.array([value], dtype=np.int64) for value in element), actor=actor)

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Columns of int64, one for each position."""
        columns = elements if isinstance(elements, tuple) else tuple(zip(*elements, strict=True))
        piece = np.array(columns, dtype=np.int64).reshape(self.width, -1)
        delta = self.bottom()
        if piece.shape[1]:
            mine = self._segments.setdefault(actor, [])
            segment = (_end(mine[-1]) if mine else 0, piece)
            mine.append(segment)
            delta._segments[actor] = [segment]
        return delta

    def merge(self, other: Self) -> bool:
        changed = False
        for actor in sorted(other._segments):
            mine, theirs = self._segments.get(actor), other._segments[actor]
            if mine is None:
                self._segments[actor] = list(theirs)
                changed = True
            elif theirs[0][0] >= _end(mine[-1]):
                mine += theirs
                changed = True
            else:
                missing = [part for segment in theirs for part in _without(segment, mine)]
                self._segments[actor] = sorted(mine + missing, key=_start)
                changed |= bool(missing)
        return changed

    def leq(self, other: Self) -> bool:
        return not any(
            next(_without(segment, other._segments.get(actor, [])), None)
            for actor, mine in self._segments.items()
            for segment in mine
        )

    def _joined(self, actor: int) -> list[Segment]:
        """The actor's segments, adjacent ones made one: the same for equal values."""
        found: list[list[Segment]] = []
        for segment in self._segments[actor]:
            if found and _end(found[-1][-1]) == segment[0]:
                found[-1].append(segment)
            else:
                found.append([segment])
        joined = [
            run[0] if len(run) == 1 else (run[0][0], np.concatenate([rows for _, rows in run], axis=1)) for run in found
        ]
        self._segments[actor] = joined
        return joined

    @property
    def value(self) -> Columns:
        pieces = [rows for actor in sorted(self._segments) for _, rows in self._joined(actor)]
        together = np.concatenate(pieces, axis=1) if pieces else np.empty((self.width, 0), dtype=np.int64)
        return Columns(together)

    def to_wire(self) -> Any:
        return [
            [actor, start, *map(narrow, rows)]
            for actor in sorted(self._segments)
            for start, rows in self._joined(actor)
        ]

    def from_wire(self, wire: Any) -> Self:
        fresh = self.bottom()
        last = -1
        try:
            for actor, start, *columns in wire:
                if len(columns) != self.width:
                    raise ValueError(f"{len(columns)} columns")
                rows = np.array([widened(column) for column in columns])
                mine = fresh._segments.get(actor, []) if type(actor) is int else []
                least = _end(mine[-1]) + 1 if mine else 0  # adjacent ones would be one
                if type(actor) is not int or type(start) is not int or actor < last or not least <= start < 2**62:
                    raise ValueError(f"rows of actor {actor!r} from {start!r}")
                if rows.shape[1] == 0 or (last == actor) != bool(mine):
                    raise ValueError(f"no rows of actor {actor}")
                fresh._segments.setdefault(actor, []).append((start, rows))
                last = actor
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not a bag of width {self.width}: {error}") from error
        return fresh


def _start(segment: Segment) -> int:
    return segment[0]


def _end(segment: Segment) -> int:
    return segment[0] + segment[1].shape[1]


def _without(segment: Segment, others: list[Segment]) -> Iterator[Segment]:
    """The parts of a segment that no other covers."""
    start, stop = segment[0], _end(segment)
    for other in others:
        if other[0] >= stop:
            break
        if start < other[0]:
            yield start, segment[1][:, start - segment[0] : other[0] - segment[0]]
        start = max(start, _end(other))
    if start < stop:
        yield start, segment[1][:, start - segment[0] :]
