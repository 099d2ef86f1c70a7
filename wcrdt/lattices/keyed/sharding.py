"""A map cut by its keys: the wire of the keys of each shard, as that of a map that holds no others."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wcrdt.lattice import type_of_wire
from wcrdt.lattices import maps
from wcrdt.lattices.columns import Ints
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.int_index import with_room
from wcrdt.lattices.keyed.keys import KeyIndex, Keys, Unfit
from wcrdt.lattices.maps import KeyedMap

AnyMap = KeyedMap[Any, Any, Any, Any]


class Sharding(Protocol):
    """Which shard a key belongs to, from 0 on; both answers are the same for a key."""

    def of_key(self, key: Any) -> int: ...
    def of_keys(self, keys: Keys) -> Ints: ...


class KnownShards:
    """The shard of each key of an index, as far as it was asked for; ``by``: who knows them."""

    __slots__ = ("by", "column", "count")

    def __init__(self, by: Sharding) -> None:
        self.by = by
        self.column = np.empty(0, np.int32)
        self.count = 0


def wires_by_shard(value: AnyMap, sharding: Sharding, only: int | None = None) -> dict[int, type_of_wire]:
    """By shard, the bytes that the map has without the keys of others; shards without a key are left out.

    ``only`` one shard, or all.
    """
    columns = None
    if value.held_as_columns or len(value) >= maps.LEAST_KEYS_ON_WIRE:
        with suppress(Unfit):
            columns = value.as_columns()
    if columns is not None:
        return _of_columns(value, columns, sharding, only)
    parts: dict[int, dict[Any, Any]] = {}
    for key, entry in value.entries().items():
        shard = sharding.of_key(key)
        if only is None or shard == only:
            parts.setdefault(shard, {})[key] = entry
    return {shard: value.of_entries(parts[shard]).to_wire() for shard in sorted(parts)}


def part_of(value: AnyMap, sharding: Sharding, shard: int) -> AnyMap | None:
    """The keys of one shard; None: it has none."""
    wires = wires_by_shard(value, sharding, shard)
    return value.from_wire(wires[shard]) if shard in wires else None


def _by_place(index: KeyIndex, sharding: Sharding) -> NDArray[np.int32]:
    """The shard of each key of an index. Each is hashed once, though it is in many deltas and all shards want it."""
    known, shards = index.count, index.shards
    if not isinstance(shards, KnownShards) or shards.by != sharding:
        shards = index.shards = KnownShards(sharding)
    if shards.count < known:
        shards.column = with_room(shards.column, known)
        shards.column[shards.count : known] = sharding.of_keys(index.take(slice(shards.count, known)))
        shards.count = known
    return shards.column[:known]


def _of_columns(value: AnyMap, columns: KeyedColumns, sharding: Sharding, only: int | None) -> dict[int, type_of_wire]:
    by_place = _by_place(columns.index, sharding)
    shards = by_place[: columns.height] if columns.places is None else by_place[columns.places]
    keys, rows = columns.ordered() if only is None else columns.ordered_of(np.flatnonzero(shards == only))
    shards = shards[rows]
    order = np.argsort(shards, kind="stable") if only is None else np.arange(len(rows))
    found, firsts = np.unique(shards[order], return_index=True)
    wires: dict[int, type_of_wire] = {}
    for shard, (begin, end) in zip(found.tolist(), pairwise([*firsts.tolist(), len(order)]), strict=True):
        part = order[begin:end]
        if len(part) >= maps.LEAST_KEYS_ON_WIRE:
            wires[shard] = columns.wire_of(keys.take(part), rows[part])
        else:
            entries = dict(zip(keys.take(part).tolist(), columns.leaf.lattices(rows[part]), strict=True))
            wires[shard] = value.of_entries(entries).to_wire()
    return wires
