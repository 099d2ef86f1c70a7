"""Pairs of rows with equal keys, by columns: places on both sides, and columns gathered where they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.formats.batch import Column
from wcrdt.elements import identity, plain
from wcrdt.lattices.columns import rows_of, take

Ints = NDArray[np.int64]
Places = NDArray[np.intp]

_DENSE = 4
"""Up to this spread, in times of the rows of both sides, a table of all keys beats a search among those there are."""
_OWN_IDENTITIES = frozenset({int, str, bytes})


def pairs_of(left: Any, right: Any) -> tuple[Places, Places]:
    """The places of all pairs with equal keys, of columns of keys: by the left place, then by the right one.

    Keys are equal as elements are: ``1``, ``True`` and ``1.0`` are three.
    """
    ours, theirs = _numbered(left, right)
    if not len(ours) or not len(theirs):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    order = np.argsort(theirs, kind="stable")
    first, counts = _found(theirs[order], ours)
    if int(np.maximum.reduce(counts)) <= 1:
        mine = np.flatnonzero(counts)
        return mine, order[first[mine]]
    mine = np.repeat(np.arange(len(ours)), counts)
    within = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    return mine, order[first[mine] + within]


def _found(ascending: Ints, keys: Ints) -> tuple[Places, Places]:
    """For each key its first place among keys that ascend, and how many there are."""
    low, high = int(ascending[0]), int(ascending[-1])
    if high - low >= _DENSE * (len(ascending) + len(keys)):
        first = np.searchsorted(ascending, keys, "left")
        return first, np.searchsorted(ascending, keys, "right") - first
    begins = np.zeros(high - low + 2, np.intp)
    np.cumsum(np.bincount(ascending - low, minlength=high - low + 1), out=begins[1:])
    inside = (keys >= low) & (keys <= high)
    place = np.where(inside, keys, low) - low
    first = begins[place]
    return first, np.where(inside, begins[place + 1] - first, 0)


def _numbered(left: Any, right: Any) -> tuple[Ints, Ints]:
    """A number for each key, the same for equal ones."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _numbered_tuples(left, right)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.dtype == right.dtype == np.int64:
        return left, right
    known: dict[Any, int] = {}
    for key in _identities(right):
        known.setdefault(key, len(known))
    ours, theirs = ([known.get(key, -1) for key in _identities(column)] for column in (left, right))
    return np.array(ours, np.int64), np.array(theirs, np.int64)


def _numbered_tuples(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Ints, Ints]:
    if len(left) != len(right):
        return np.zeros(len(left[0]), np.int64), np.ones(len(right[0]), np.int64)
    parts = [_numbered(mine, other) for mine, other in zip(left, right, strict=True)]
    both = np.concatenate(parts[0])
    for mine, other in parts[1:]:
        codes, others = (np.unique(some, return_inverse=True)[1] for some in (both, np.concatenate([mine, other])))
        both = codes * (int(others.max(initial=0)) + 1) + others  # below the square of the number of rows
    return both[: len(parts[0][0])], both[len(parts[0][0]) :]


def _identities(column: Any) -> Sequence[Any]:
    keys = rows_of(column)
    return keys if set(map(type, keys)) <= _OWN_IDENTITIES else [identity(plain(key)) for key in keys]


class PairColumns(Mapping[str, Column]):
    """The columns of pairs, each gathered when it is first asked for: of each side its columns, and its places.

    ``sides`` by their names, which columns begin with: ``left.price``. ``keys``: read as ``key``, and no column.
    """

    __slots__ = ("_keys", "_made", "_sides")

    def __init__(self, sides: Mapping[str, tuple[Mapping[str, Any], Places]], keys: tuple[Any, Places]) -> None:
        self._sides = {
            f"{side}.{name}": (columns[name], at) for side, (columns, at) in sides.items() for name in columns
        }
        self._keys = keys
        self._made: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = take(*(self._keys if name == "key" else self._sides[name]))
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._sides

    def __iter__(self) -> Iterator[str]:
        return iter(self._sides)

    def __len__(self) -> int:
        return len(self._sides)
