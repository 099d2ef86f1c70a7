"""Counts by integer key, kept as columns: how often each key came in a slice of time."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt import DecodeError, Lattice

Ints = NDArray[np.int64]

_DENSE = 1 << 20
"""Up to this spread of keys, counting into an array of their range beats sorting them."""


class Columns(tuple[Ints, ...]):
    """Columns of one length; equal if all their numbers are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and np.array_equal(self, other)

    __hash__ = None  # type: ignore[assignment]


class Counted(NamedTuple):
    """Keys, ascending, and the count (at least 1) of each."""

    keys: Ints
    counts: Ints


_NONE = Counted(np.empty(0, np.int64), np.empty(0, np.int64))


class KeyCounts(Lattice[int, Columns]):
    """Key -> how often it was inserted; the value is two columns, keys ascending and their counts.

    Of one actor's counts the higher one joins; the counts of actors add up. As ``MapOf(GCounter())``, which holds an
    object for each key, without one.
    """

    __slots__ = ("_actors",)
    tag: ClassVar[str] = "nexmark-counts"
    compact: ClassVar[bool] = True

    def __init__(self) -> None:
        self._actors: dict[int, Counted] = {}  # never changed in place, so that copies may share them

    def bottom(self) -> Self:
        return type(self)()

    def insert(self, element: int, *, actor: int = 0) -> Self:
        return self.insert_many(np.array([_int64(element)], dtype=np.int64), actor=actor)

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """A column of keys. The delta is all that the actor counted."""
        if isinstance(elements, np.ndarray) and elements.dtype == np.int64:
            keys = elements
        else:
            keys = np.array([_int64(element) for element in elements], dtype=np.int64)
        if len(keys):
            self._actors[actor] = added([self._actors.get(actor, _NONE), count(keys)])
        delta = self.bottom()
        if actor in self._actors:
            delta._actors[actor] = self._actors[actor]
        return delta

    def check(self, element: int) -> None:
        _int64(element)

    def merge(self, other: Self) -> bool:
        changed = False
        for actor in sorted(other._actors):
            mine, theirs = self._actors.get(actor), other._actors[actor]
            joined = theirs if mine is None else _joined(mine, theirs)
            if joined is not mine:
                self._actors[actor] = joined
                changed = True
        return changed

    def leq(self, other: Self) -> bool:
        return all(
            actor in other._actors and _joined(other._actors[actor], mine) is other._actors[actor]
            for actor, mine in self._actors.items()
        )

    @property
    def value(self) -> Columns:
        return Columns(added([self._actors[actor] for actor in sorted(self._actors)]))

    def to_wire(self) -> Any:
        return [[actor, *(column.astype("<i8").tobytes() for column in self._actors[actor])]
                for actor in sorted(self._actors)]  # fmt: skip

    def from_wire(self, wire: Any) -> Self:
        fresh = self.bottom()
        try:
            for actor, *columns in wire:
                keys, counts = (np.frombuffer(data, dtype="<i8").astype(np.int64) for data in columns)
                ascends = len(keys) > 0 and bool((keys[1:] > keys[:-1]).all())
                if type(actor) is not int or actor <= max(fresh._actors, default=actor - 1) or not ascends:
                    raise ValueError(f"counts of actor {actor!r}")
                if len(counts) != len(keys) or int(counts.min()) < 1:
                    raise ValueError(f"{len(counts)} counts of {len(keys)} keys of actor {actor}")
                fresh._actors[actor] = Counted(keys, counts)
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not counts: {error}") from error
        return fresh


def count(keys: Ints) -> Counted:
    """How often each key is in the column."""
    low = int(keys.min())
    if int(keys.max()) - low < _DENSE:
        tally = np.bincount(keys - low)
        found = np.flatnonzero(tally)
        return Counted(found + low, tally[found].astype(np.int64, copy=False))
    return Counted(*np.unique(keys, return_counts=True))


def added(parts: list[Counted]) -> Counted:
    """The counts of all parts together."""
    parts = [part for part in parts if len(part.keys)]
    if len(parts) < 2:
        return parts[0] if parts else _NONE
    return _grouped(np.concatenate([p.keys for p in parts]), np.concatenate([p.counts for p in parts]), np.add)


def _joined(mine: Counted, theirs: Counted) -> Counted:
    """The higher count of each key; ``mine`` itself if nothing of it changes."""
    both = np.concatenate([mine.keys, theirs.keys]), np.concatenate([mine.counts, theirs.counts])
    joined = _grouped(*both, np.maximum)
    if len(joined.keys) == len(mine.keys) and np.array_equal(joined.counts, mine.counts):
        return mine
    return joined


def _grouped(keys: Ints, counts: Ints, combine: np.ufunc) -> Counted:
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Counted(ordered[first], combine.reduceat(counts[order], first))


def _int64(element: Any) -> int:
    if type(element) is not int or not -(2**63) <= element < 2**63:
        raise TypeError(f"a key is a 64-bit integer, not {element!r}")
    return element
