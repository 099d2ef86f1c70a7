"""A map cut by its keys: each shard has the bytes of a map of its keys alone, and all together are the map."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holon.outputs.shards import KeyShards, shard_of
from tests.laws.test_keyed_columns import columns_of_few_keys
from wcrdt import ColumnsOf, GCounter, GSet, MapOf, Max, RecordOf, Sum, TopK
from wcrdt.lattices.keyed.keys import Keys
from wcrdt.lattices.keyed.sharding import wires_by_shard

__all__ = ["columns_of_few_keys"]
"""The fixture holds for this file, too."""

pytestmark = pytest.mark.laws
KEYS: dict[str, Callable[[random.Random], Any]] = {
    "ints": lambda rng: rng.choice([rng.randint(-20, 20), rng.randint(-(2**63), 2**63 - 1)]),
    "big ints": lambda rng: rng.randint(-(2**70), 2**70),
    "texts": lambda rng: rng.choice(["", "a", "ä", "x" * 70]) + str(rng.randint(0, 9)),
    "bytes": lambda rng: rng.randbytes(rng.randint(0, 3)),
    "pairs": lambda rng: (rng.randint(0, 5), rng.choice("abc")),
    "all": lambda rng: KEYS[rng.choice(["ints", "texts", "bytes", "pairs"])](rng),
}
INNERS: dict[str, tuple[Any, Callable[[random.Random], Any]]] = {
    "gcounter": (GCounter(), lambda rng: rng.randint(0, 9)),
    "gset": (GSet(), lambda rng: rng.randint(0, 5)),
    "record": (RecordOf(most=Max(), sum=Sum()), lambda rng: (rng.randint(-9, 9), rng.randint(-9, 9))),
    "topk": (TopK(2), lambda rng: (rng.randint(0, 9), rng.randint(0, 9))),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("name", INNERS)
def test_shards_are_the_map_of_their_keys_alone(name: str, kind: str) -> None:
    """Of maps of columns and of objects, of one actor and of several."""
    inner, element = INNERS[name]
    for seed in range(12):
        rng = random.Random(f"{name} {kind} {seed}")
        value: Any = rng.choice([MapOf, ColumnsOf])(inner)
        for _ in range(rng.randint(0, 3)):
            rows = [(KEYS[kind](rng), element(rng)) for _ in range(rng.randint(1, 12))]
            actor = rng.randint(0, 2)
            if rng.random() < 0.7:
                value.insert_many(rows, actor=actor)
            else:
                for row in rows:
                    value.insert(row, actor=actor)
        shards = KeyShards(rng.randint(1, 5))
        whole, wire = value.bottom(), value.to_wire()
        for shard, part in wires_by_shard(value, shards).items():
            mine = [key for key in value.entries() if shard_of(key, shards.partitions) == shard]
            assert mine and part == value.restricted(mine).to_wire()
            whole.merge(value.from_wire(part))
        assert whole.to_wire() == value.to_wire() == wire


class Counted(NamedTuple):
    """Shards, and each key that was hashed."""

    partitions: int
    hashed: list[Any]

    def of_key(self, key: Any) -> int:
        return shard_of(key, self.partitions)

    def of_keys(self, keys: Keys) -> Any:
        self.hashed.extend(keys.tolist())
        return KeyShards(self.partitions).of_keys(keys)


@pytest.mark.parametrize("kind", ["ints", "texts", "pairs"])
def test_a_map_that_grows_hashes_each_key_once_whatever_is_cut(kind: str) -> None:
    """Deltas, the whole, and one shard alone are cut as those of a map that was never cut before."""
    for seed in range(12):
        rng = random.Random(f"grows {kind} {seed}")
        value, shards = MapOf(GCounter()), Counted(rng.randint(2, 5), [])
        for _ in range(6):
            rows = [(KEYS[kind](rng), rng.randint(1, 9)) for _ in range(rng.randint(1, 12))]
            delta = value.insert_many(rows)
            cut = rng.choice([value, delta])
            only = rng.choice([None, *range(shards.partitions)])
            fresh = cut.from_wire(cut.to_wire())
            assert wires_by_shard(cut, shards, only) == wires_by_shard(fresh, KeyShards(shards.partitions), only)
        wires_by_shard(value, shards)
        assert sorted(shards.hashed, key=repr) == sorted(value.entries(), key=repr), "each of them once"
        others = KeyShards(7)
        fresh = value.from_wire(value.to_wire())
        assert wires_by_shard(value, others) == wires_by_shard(fresh, others), "by others they are hashed anew"
