"""Columns made of Python values, columns with other values at some rows, and columns of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn, ObjectColumn

Rows = NDArray[np.intp]
Places = NDArray[np.int64]

KINDS: dict[type, str] = {int: "int", float: "float", bool: "bool", str: "text"}
"""Kinds of columns by the type of their rows; rows of other types are a list."""
_NOTHING: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "text": ""}
_DTYPES: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_}


def column_of(kind: str, values: list[Any]) -> Any:
    """The column of these Python values; raises ``OverflowError`` where int64 does not hold an int."""
    if kind == "list":
        return values
    return Texts.of(values) if kind == "text" else np.array(values, _DTYPES[kind])


def as_column(kind: str, values: list[Any], good: NDArray[np.bool_]) -> Any:
    """A column of Python values; rows that are not good hold nothing."""
    if kind == "list":
        return values
    return column_of(
        kind, [value if whole else _NOTHING[kind] for value, whole in zip(values, good.tolist(), strict=True)]
    )


def with_values(column: Any, rows: Rows, values: Sequence[Any]) -> Any:
    """The column with other values at some rows."""
    if isinstance(column, Texts | LazyColumn | Lists):
        return column.replaced(rows, values)
    if isinstance(column, np.ndarray):
        column[rows] = values
        return column
    for row, value in zip(rows.tolist(), values, strict=True):
        column[row] = value
    return column


class Lists(ObjectColumn):
    """Row ``i`` is the list of ``values[starts[i]:ends[i]]``; if its start is negative, ``others[-1 - starts[i]]``.

    ``values`` is a column of ``kind``, or if ``depth`` is more than 1, of lists itself. Others are None, what a missing
    field has, and lists that no loop has read.
    """

    __slots__ = ("_depth", "_ends", "_kind", "_others", "_read", "_starts", "_values")

    def __init__(
        self,
        kind: str,
        depth: int,
        values: Any,
        starts: Places,
        ends: Places,
        others: Sequence[Any] = (),
        read: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._kind, self._depth, self._values, self._others, self._read = kind, depth, values, others, read
        self._starts, self._ends = starts, ends

    @classmethod
    def of(cls, kind: str, depth: int, rows: Sequence[Any], read: Callable[[Any], Any] | None = None) -> Lists:
        """Lists, None and other objects as a column. ``read`` makes them of these rows, when one is read."""
        places = np.arange(len(rows), dtype=np.int64)
        return cls(kind, depth, _items_column(kind, depth, []), -1 - places, places, rows, read)

    def flat(self) -> tuple[Any, Places]:
        """The items of all rows as one column, and offsets: those of row i are from ``offsets[i]`` to ``offsets[i+1]``.

        A row that is no list has none. Ints are an array of int64, or of Python ints where one is beyond 64 bits;
        floats and bools are arrays, texts ``Texts``, everything else is a sequence of objects.
        """
        rows = np.flatnonzero(self._starts < 0)
        others = [each if isinstance(each, list) else [] for each in map(self._other, self._starts[rows].tolist())]
        lengths = self._lengths()
        lengths[rows] = list(map(len, others))
        offsets = _offsets(lengths)
        objects = list(chain.from_iterable(others))
        if len(objects) == offsets[-1]:
            return _items_column(self._kind, self._depth, objects), offsets
        index, here = _index(self._starts, lengths), np.repeat(self._starts < 0, lengths)
        index[here] = 0
        values = _taken(self._values, index)
        try:
            return with_values(values, np.flatnonzero(here), objects), offsets
        except OverflowError:
            return with_values(values.astype(object), np.flatnonzero(here), objects), offsets

    def lengths(self) -> Places | None:
        """The number of items of each row; None if a row is no list, or one that no loop has read."""
        return None if bool((self._starts < 0).any()) else self._lengths()

    def replaced(self, rows: Rows, objects: Sequence[Any]) -> Lists:
        """With other objects at some rows."""
        starts = self._starts.copy()
        starts[rows] = -1 - len(self._others) - np.arange(len(rows))
        others = self._others if self._read is None else map(self._read, self._others)
        return Lists(self._kind, self._depth, self._values, starts, self._ends, [*others, *objects])

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Lists:
        """The rows of an index, a mask or a slice."""
        starts, ends = self._starts[index], self._ends[index]
        return Lists(self._kind, self._depth, self._values, starts, ends, self._others, self._read)

    def _made(self) -> list[Any]:
        values, starts, lengths = self._values, self._starts, self._lengths()
        offsets = _offsets(lengths)
        if offsets[-1] != len(values) or bool((starts != offsets[:-1])[starts >= 0].any()):  # items of their own
            values, starts = _taken(values, _index(starts, lengths)), np.where(starts < 0, starts, offsets[:-1])
        items = values.tolist() if isinstance(values, np.ndarray) else list(values)
        places = zip(starts.tolist(), lengths.tolist(), strict=True)
        return [items[at : at + length] if at >= 0 else self._other(at) for at, length in places]

    def _other(self, start: int) -> Any:
        """The row of a negative start."""
        other = self._others[-1 - start]
        return other if self._read is None else self._read(other)

    def _lengths(self) -> Places:
        """The items of each row in ``values``."""
        return np.where(self._starts < 0, 0, np.maximum(self._ends - self._starts, 0))

    def _row(self, row: int) -> Any:
        start = int(self._starts[row])
        return self.tolist()[row] if start >= 0 else self._other(start)

    def __len__(self) -> int:
        return len(self._starts)


def _items_column(kind: str, depth: int, items: list[Any]) -> Any:
    """The column of the items of lists of this kind and depth."""
    if depth > 1:
        return Lists.of(kind, depth - 1, items)
    try:
        return column_of(kind, items)
    except OverflowError:
        return np.array(items, object)


def _offsets(lengths: Places) -> Places:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _index(starts: Places, lengths: Places) -> Rows:
    """The places from each start on, so many of each, one behind the other."""
    offsets = _offsets(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


def _taken(values: Any, index: Rows) -> Any:
    if isinstance(values, np.ndarray):
        return values[index]
    return [values[row] for row in index.tolist()] if isinstance(values, list) else values.take(index)
