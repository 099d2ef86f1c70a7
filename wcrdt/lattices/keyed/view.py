"""The value of a ``ColumnsOf``: a mapping that gives its keys and values as columns, and makes objects on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from wcrdt.lattices.columns import Indices
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Keys
from wcrdt.lattices.keyed.spans import KeySpans

K = TypeVar("K")
V = TypeVar("V")


class KeyedView(Mapping[K, V]):
    """Key -> value, in the order of keys; equal to the dict of the same keys and values.

    It is what the map held when it was read: later inserts do not show.
    """

    __slots__ = ("_columns", "_dict", "_sorted")

    def __init__(self, columns: KeyedColumns | None, entries: dict[K, V] | None = None) -> None:
        """One of both, which no one else changes."""
        self._columns = columns
        self._dict = entries
        self._sorted: tuple[Keys, Indices] | None = None

    def _ordered(self, columns: KeyedColumns) -> tuple[Keys, Indices]:
        if self._sorted is None:
            self._sorted = columns.ordered()
        return self._sorted

    def columns(self) -> tuple[Any, Any]:
        """A column of keys, and one of values, both in the order of keys; not to be written.

        Keys that are ints of 64 bits are an array of int64, tuples a tuple of columns, all others a list. Counts,
        integral sums, maxima and minima of numbers, and estimates are arrays, of ``RecordOf`` a dict of columns, of
        ``PairOf`` a tuple, all others a list. Without a key both are empty arrays of int64. Where the map holds what
        columns cannot hold (a Decimal, keys of several kinds), both are lists.
        """
        columns = self._columns
        if columns is None:
            entries = self.to_dict()
            return (list(entries), list(entries.values())) if entries else (_NOTHING, _NOTHING)
        keys, rows = self._ordered(columns)
        return _column_of(keys), columns.leaf.columns(rows)

    def to_dict(self) -> dict[K, V]:
        """The dict of all keys and values, made once."""
        if self._dict is None:
            assert self._columns is not None
            keys, rows = self._ordered(self._columns)
            self._dict = dict(zip(keys.tolist(), self._columns.leaf.values(rows), strict=True))
        return self._dict

    def __getitem__(self, key: K) -> V:
        if self._dict is not None:
            return self._dict[key]
        assert self._columns is not None
        rows = self._columns.row_of(key)
        if not len(rows):
            raise KeyError(key)
        return self._columns.leaf.values(rows)[0]

    def __iter__(self) -> Iterator[K]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict()) if self._columns is None else self._columns.height

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyedView):
            other = other.to_dict()
        return self.to_dict() == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.to_dict())


_NOTHING = np.empty(0, np.int64)
_NOTHING.flags.writeable = False


def _column_of(keys: Keys) -> Any:
    parts = [
        Keys(form, [part]).tolist() if isinstance(part, KeySpans) else part
        for form, part in zip(keys.form.strip("()"), keys.parts, strict=True)
    ]
    return parts[0] if len(keys.form) == 1 else tuple(parts)
