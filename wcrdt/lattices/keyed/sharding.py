"""A map cut by its keys: the wire of the keys of each shard, as that of a map that holds no others."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from wcrdt.lattice import type_of_wire
from wcrdt.lattices import maps
from wcrdt.lattices.columns import Ints
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Keys, Unfit
from wcrdt.lattices.maps import KeyedMap

AnyMap = KeyedMap[Any, Any, Any, Any]


class Sharding(Protocol):
    """Which shard a key belongs to, from 0 on; both answers are the same for a key."""

    def of_key(self, key: Any) -> int: ...
    def of_keys(self, keys: Keys) -> Ints: ...


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


def _of_columns(value: AnyMap, columns: KeyedColumns, sharding: Sharding, only: int | None) -> dict[int, type_of_wire]:
    keys, rows = columns.ordered()
    shards = sharding.of_keys(keys)
    order = np.argsort(shards, kind="stable") if only is None else np.flatnonzero(shards == only)
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
