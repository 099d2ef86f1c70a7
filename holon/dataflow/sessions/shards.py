"""Shards: which partition answers for the sessions of a key. The same on every node, and in every run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from holon.outputs.partitioner import key_bytes, partition_of, partitions_of_rows
from wcrdt.codec import encode_element
from wcrdt.lattices.columns import Indices, Ints
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Keys, Unfit
from wcrdt.lattices.keyed.spans import WORD_BYTES, KeySpans
from wcrdt.lattices.maps import LEAST_KEYS, ColumnsOf

_KEPT = 1 << 16
_TENS = np.array([10**digits for digits in range(1, 20)], np.uint64)
_ZERO, _MINUS = b"0-"

Arrived = KeyedColumns | Mapping[Any, Any]
"""The keys of a slice with their states: columns of one actor, for whoever gets them to keep, or shared objects."""


@lru_cache(_KEPT)
def shard_of(key: Any, partitions: int) -> int:
    """The partition, as Kafka's default partitioner takes it for the key of a sink: ``sink(topic, key=...)``."""
    written = encode_element(key) if key is None or isinstance(key, tuple) else key_bytes(key)
    return partition_of(written, partitions)


def shards_of(keys: Keys, partitions: int) -> Ints:
    """``shard_of`` each row."""
    if len(keys.form) > 1:
        return np.fromiter((shard_of(key, partitions) for key in keys.tolist()), np.int64, keys.rows)
    part = keys.parts[0]
    return partitions_of_rows(part if isinstance(part, KeySpans) else _digits(part), partitions)


def _digits(numbers: Ints) -> KeySpans:
    """As ``str`` writes them."""
    unsigned = numbers.view(np.uint64)
    left = np.where(numbers < 0, ~unsigned + np.uint64(1), unsigned)
    digits = np.searchsorted(_TENS, left, side="right") + 1
    most = int(digits.max())
    width = most + 1
    rows = np.full((len(numbers), width), _MINUS, np.uint8)
    for place in range(most):
        left, digit = np.divmod(left, np.uint64(10))
        rows[:, -1 - place] = np.where(place < digits, digit + np.uint64(_ZERO), np.uint64(_MINUS))
    ends = np.arange(1, len(numbers) + 1) * width
    buffer = np.concatenate([rows.ravel(), np.zeros(WORD_BYTES, np.uint8)])
    return KeySpans(buffer, ends - digits - (numbers < 0), ends)


class _Parted(NamedTuple):
    """The rows of a slice in the order of shards; those of one are between two borders."""

    columns: KeyedColumns
    rows: Indices
    borders: list[int]


class Slices:
    """Complete slices by shard. All partitions of a node ask for a slice, one by one: it is parted for the first."""

    def __init__(self) -> None:
        self._last: tuple[ColumnsOf[Any, Any, Any], int, int, _Parted] | None = None

    def shard(self, found: ColumnsOf[Any, Any, Any], shard: int, partitions: int) -> Arrived:
        """The keys of a shard, of a slice that does not change any more."""
        parted = self._parted(found, partitions)
        if parted is None:
            return found.entries_where(lambda key: shard_of(key, partitions) == shard)
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
        shards = shards_of(columns.keys(), partitions)
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
