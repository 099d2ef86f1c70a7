"""Shards: which partition answers for a key. The same on every node, and in every run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from holon.outputs.partitioner import key_bytes, partition_of, partitions_of_rows
from wcrdt.codec import encode_element
from wcrdt.lattices.columns import Ints
from wcrdt.lattices.keyed.keys import Keys
from wcrdt.lattices.keyed.spans import WORD_BYTES, KeySpans

_KEPT = 1 << 16
_TENS = np.array([10**digits for digits in range(1, 20)], np.uint64)
_ZERO, _MINUS = b"0-"


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


class KeyShards(NamedTuple):
    """A shard for each partition."""

    partitions: int

    def of_key(self, key: Any) -> int:
        return shard_of(key, self.partitions)

    def of_keys(self, keys: Keys) -> Ints:
        return shards_of(keys, self.partitions)
