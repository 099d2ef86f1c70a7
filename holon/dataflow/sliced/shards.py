"""Slices by shard: the keys for which a partition answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from holon.outputs.shards import shard_of, shards_of
from wcrdt.lattices.columns import Indices, Ints
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Keys, Unfit
from wcrdt.lattices.maps import LEAST_KEYS, ColumnsOf

Arrived = KeyedColumns | Mapping[Any, Any]
"""The keys of a slice with their states: columns of one actor, for whoever gets them to keep, or shared objects."""


class _Parted(NamedTuple):
    """The rows of a slice in the order of shards; those of one are between two borders."""

    columns: KeyedColumns
    rows: Indices
    borders: list[int]


class Slices:
    """Complete slices by shard. All partitions of a node ask for a slice, one by one: it is parted for the first.

    ``of_key`` and ``of_keys``: the shard of a key, and of each of a column of keys, among so many partitions.
    """

    def __init__(
        self,
        of_key: Callable[[Any, int], int] = shard_of,
        of_keys: Callable[[Keys, int], Ints] = shards_of,
    ) -> None:
        self._of_key = of_key
        self._of_keys = of_keys
        self._last: tuple[ColumnsOf[Any, Any, Any], int, int, _Parted] | None = None

    def shard(self, found: ColumnsOf[Any, Any, Any], shard: int, partitions: int) -> Arrived:
        """The keys of a shard, of a slice that does not change any more."""
        parted = self._parted(found, partitions)
        if parted is None:
            return found.entries_where(lambda key: self._of_key(key, partitions) == shard)
        rows = parted.rows[parted.borders[shard] : parted.borders[shard + 1]]
        return parted.columns.taken(rows) if len(rows) else {}

    def _parted(self, found: ColumnsOf[Any, Any, Any], partitions: int) -> _Parted | None:
        """None where it is to be objects."""
        known = self._last
        if known is not None and known[0] is found and known[1:3] == (len(found), partitions):
            return known[3]
        columns = columns_of(found)
        if columns is None:
            return None
        shards = self._of_keys(columns.keys(), partitions)
        borders = np.concatenate([[0], np.cumsum(np.bincount(shards, minlength=partitions))]).tolist()
        parted = _Parted(columns, np.argsort(shards, kind="stable"), borders)
        self._last = found, len(found), partitions, parted
        return parted


def whole(found: ColumnsOf[Any, Any, Any]) -> Arrived:
    """All keys of a slice."""
    columns = columns_of(found)
    return found.entries() if columns is None else columns.taken(np.arange(columns.height))


def columns_of(found: ColumnsOf[Any, Any, Any]) -> KeyedColumns | None:
    """A slice as columns of one actor, not to be written; None where it has few keys, or is none."""
    if len(found) < LEAST_KEYS:
        return None
    try:
        columns = found.as_columns()
        return None if columns is None else columns.of_one_actor()
    except Unfit:
        return None
