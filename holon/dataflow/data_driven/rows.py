"""The rows of slices: a slice holds each by a key of its own, in which its place in the order of a key's rows is.

The key of a row is ``(parts, key ..., time, partition, offset, place, ordinal, mark ...)``. ``parts``: how many the
key has where it is a tuple, else -1. ``partition`` is the job's number, which counts over its topics in their order.
``ordinal`` tells several rows of one event apart. So rows in the order of these keys are by key, and then in the order
(time, topic, partition, offset, place).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import Origins
from holon.dataflow.sliced.shards import Arrived
from holon.formats.batch import Column
from holon.outputs.shards import shard_of, shards_of
from wcrdt.elements import ordered
from wcrdt.lattices.columns import Indices, Ints
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Keys
from wcrdt.lattices.keyed.leaves import Leaf

_SCALAR = -1
_PLACE = 5
"""Time, partition, offset, place and ordinal."""


def keys_of_rows(
    keys: Column, marks: Sequence[Column], ts_ms: NDArray[np.int64], partition: int, origins: Origins
) -> Column:
    """The key of each row, as columns or, where users' keys are of several kinds, as tuples."""
    own = (ts_ms, np.full(len(ts_ms), partition), *origins, *marks)
    if isinstance(keys, tuple) and not any(isinstance(part, tuple) for part in keys):
        return np.full(len(ts_ms), len(keys)), *keys, *own
    if isinstance(keys, list | tuple):
        rows: list[Any] = keys if isinstance(keys, list) else list(zip(*map(_objects, keys), strict=True))
        if any(isinstance(key, tuple) for key in rows):
            lists = [as_list(column) for column in own]
            return [(*_parts(key), *rest) for key, *rest in zip(rows, *lists, strict=True)]
    return np.full(len(ts_ms), _SCALAR), keys, *own


def _objects(column: Column) -> list[Any]:
    return list(zip(*map(_objects, column), strict=True)) if isinstance(column, tuple) else as_list(column)


def _parts(key: Any) -> tuple[Any, ...]:
    return (len(key), *key) if isinstance(key, tuple) else (_SCALAR, key)


class RowKeys(NamedTuple):
    """``marks``: how many a row has."""

    marks: int

    def key(self, row: Sequence[Any]) -> Any:
        """The user's key in that of a row."""
        parts = row[1 : len(row) - _PLACE - self.marks]
        return parts[0] if row[0] == _SCALAR else tuple(parts)

    def shard_of(self, row: Any, partitions: int) -> int:
        return shard_of(self.key(row), partitions)

    def shards_of(self, rows: Keys, partitions: int) -> Ints:
        form, parts = rows.form.strip("()"), rows.parts
        if bool((parts[0] == _SCALAR).all()):  # type: ignore[union-attr]
            return shards_of(Keys(form[1], [parts[1]]), partitions)
        return np.fromiter((shard_of(key, partitions) for key in self._keys(rows)), np.int64, rows.rows)

    def sharding(self, partitions: int) -> RowShards:
        """Which of so many partitions answers for a row: the one that answers for the user's key."""
        return RowShards(self, partitions)

    def _keys(self, rows: Keys) -> list[Any]:
        last = len(rows.parts) - _PLACE - self.marks
        form = rows.form.strip("()")[:last]
        if bool((rows.parts[0] == _SCALAR).all()):  # type: ignore[union-attr]
            return Keys(form[1], [rows.parts[1]]).tolist()
        return [
            self.key((*parts, *[0] * (_PLACE + self.marks))) for parts in Keys(f"({form})", rows.parts[:last]).tolist()
        ]

    def in_order(self, arrived: Arrived) -> SliceRows:
        """The rows of a slice."""
        if isinstance(arrived, KeyedColumns):
            keys, places = arrived.ordered()
            times = len(keys.parts) - _PLACE - self.marks
            lists = [Keys(form, [part]).tolist() for form, part in zip(keys.form.strip("()"), keys.parts, strict=True)]
            marks = list(zip(*lists[times + _PLACE :], strict=True)) if self.marks else [()] * len(places)
            return SliceRows(self._keys(keys), lists[times], marks, Partials(arrived.leaf, places))
        rows = ordered(arrived)
        marks = [row[len(row) - self.marks :] for row in rows]
        times = [row[len(row) - _PLACE - self.marks] for row in rows]
        return SliceRows(list(map(self.key, rows)), times, marks, [arrived[row] for row in rows])


class RowShards(NamedTuple):
    """``KeyShards`` of the users' keys in the keys of rows."""

    keys: RowKeys
    partitions: int

    def of_key(self, key: Any) -> int:
        return self.keys.shard_of(key, self.partitions)

    def of_keys(self, keys: Keys) -> Ints:
        return self.keys.shards_of(keys, self.partitions)


class Partials(NamedTuple):
    """The state of each row, as columns."""

    leaf: Leaf
    places: Indices


class SliceRows(NamedTuple):
    """Rows by key, and in their order: keys, times, marks, and the state of each."""

    keys: list[Any]
    times: list[int]
    marks: list[tuple[Any, ...]]
    states: Partials | list[Any]


def together(leaf: Leaf, sizes: Indices) -> Leaf:
    """A row for each group of adjacent rows, of the elements of all of these. Raises ``Unfit``.

    Pairs are combined until there is one: so a group costs twice its rows, in as many rounds as its size has bits.
    """
    while int(sizes.max(initial=0)) > 1:
        place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        even, odd = np.flatnonzero(place % 2 == 0), np.flatnonzero(place % 2)
        first, second = leaf.taken(even), leaf.taken(odd)
        first.commit(first.prepare_combine(np.searchsorted(even, odd - 1), second, len(even)))
        leaf, sizes = first, (sizes + 1) // 2
    return leaf
