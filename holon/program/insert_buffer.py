"""Gathered elements: what a function has inserted one by one, on its way into the windows as columns.

Law: an element is checked when it is inserted, and each read of the windows of its state has them applied before.
So it does not show that they were gathered, but by the time that it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wcrdt.elements import identity, plain
from wcrdt.lattice import Lattice
from wcrdt.lattices.maps import ColumnsOf, MapOf
from wcrdt.windows.assigners import BEFORE_TIME_MS

_PLAIN = (int, float, str, bytes, Decimal, np.generic)
_DTYPES: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


class Gathered(NamedTuple):
    """Columns. ``watermarks_ms``: those by which elements are late for some of their windows, or a time before all."""

    elements: Any
    times: NDArray[np.int64]
    watermarks_ms: NDArray[np.int64]


class GatheredRows:
    """Elements of one state in the order of their inserts. Handles append to the lists, which are never replaced."""

    __slots__ = ("elements", "times", "watermarks")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.times: list[int] = []
        self.watermarks: dict[int, int] = {}

    def add(self, element: Any, ts_ms: int, watermark_ms: int | None) -> None:
        """One that the lattice accepts. ``watermark_ms``: where it is late for one of its windows, but not for all."""
        if watermark_ms is not None:
            self.watermarks[len(self.times)] = watermark_ms
        self.append(element)
        self.times.append(ts_ms)

    def append(self, element: Any) -> None:
        """An element that the lattice accepts; its time has to follow."""
        self.elements.append(element)

    def cut_back(self, count: int) -> None:
        """Forget what came after the first ``count`` elements."""
        del self.elements[count:], self.times[count:]
        for row in [row for row in self.watermarks if row >= count]:
            del self.watermarks[row]

    def take(self) -> Gathered:
        """All of them, which are then no longer here; at least one."""
        watermarks_ms = np.full(len(self.times), BEFORE_TIME_MS)
        watermarks_ms[list(self.watermarks)] = list(self.watermarks.values())
        taken = Gathered(self._columns(), np.array(self.times, np.int64), watermarks_ms)
        self.cut_back(0)
        return taken

    def _columns(self) -> Any:
        return as_columns(self.elements)


class GatheredPairs(GatheredRows):
    """Elements of a map: ``elements`` are the parts, and ``codes`` the numbers of their keys."""

    __slots__ = ("codes", "numbers")

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[int] = []
        self.numbers = KeyNumbers()

    def append(self, element: Any) -> None:
        key, part = element
        self.codes.append(self.numbers[identity(plain(key))])
        self.elements.append(part)

    def cut_back(self, count: int) -> None:
        super().cut_back(count)
        del self.codes[count:]
        known = max(self.codes, default=-1) + 1
        while len(self.numbers) > known:  # the last ones: keys are numbered as they come
            self.numbers.popitem()

    def _columns(self) -> Any:
        return KeyColumn(np.array(self.codes, np.int64), list(self.numbers)), as_columns(self.elements)


class KeyNumbers(dict[Any, int]):
    """Identities of keys, and their numbers from 0 as they first come. Raises as ``plain`` for a text without bytes."""

    def __missing__(self, key: Any) -> int:
        number = self[plain(key)] = len(self)
        return number


class KeyColumn(Sequence[Any]):
    """A column of keys, each by its number among the distinct ones."""

    __slots__ = ("_codes", "_names")

    def __init__(self, codes: NDArray[np.int64], names: list[Any]) -> None:
        self._codes, self._names = codes, names

    def numbered(self) -> tuple[NDArray[np.int64], list[Any]]:
        """A number from 0 for each row, and the distinct keys by number, as they first come."""
        codes, firsts = self.numbered_rows()
        return codes, [self._names[code] for code in self._codes[firsts].tolist()]

    def numbered_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same, with the first row of each number in place of its key."""
        firsts = np.full(len(self._names), -1, np.int64)
        firsts[self._codes[::-1]] = np.arange(len(self._codes) - 1, -1, -1)
        here = np.flatnonzero(firsts >= 0)
        here = here[np.argsort(firsts[here])]
        numbers = np.empty(len(self._names), np.int64)
        numbers[here] = np.arange(len(here))
        return numbers[self._codes], firsts[here]

    def take(self, rows: Any) -> KeyColumn:
        return KeyColumn(self._codes[rows], self._names)

    def tolist(self) -> list[Any]:
        return [self._names[code] for code in self._codes.tolist()]

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, row: Any) -> Any:
        return self.take(row) if isinstance(row, slice) else self._names[int(self._codes[row])]


def gathering(bottom: Lattice[Any, Any]) -> GatheredRows | None:
    """A place for elements of such a state; None where each has to go into its window at once."""
    if not bottom.gathers:
        return None
    return GatheredPairs() if type(bottom) in (MapOf, ColumnsOf) else GatheredRows()


def is_lasting(element: Any) -> bool:
    """True if nobody can change the element between now and the end of the batch."""
    if isinstance(element, tuple):
        return all(map(is_lasting, element))
    return element is None or isinstance(element, _PLAIN)


def as_columns(elements: list[Any]) -> Any:
    """Ints, floats or bools as an array; tuples of one length as a tuple of such columns; others as they are."""
    kinds = set(map(type, elements))
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if kind is tuple:
        width = len(elements[0])
        if width and all(len(element) == width for element in elements):
            return tuple(as_columns(list(column)) for column in zip(*elements, strict=True))
    elif kind in _DTYPES:
        try:
            return np.array(elements, _DTYPES[kind])
        except OverflowError:  # beyond 64 bits
            pass
    return list(elements)
