"""Shards: which partition answers for the sessions of a key. The same on every node, and in every run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from holon.outputs.partitioner import key_bytes, partition_of
from wcrdt.codec import encode_element

_KEPT = 1 << 16


@lru_cache(_KEPT)
def shard_of(key: Any, partitions: int) -> int:
    """The partition, as Kafka's default partitioner takes it for the key of a sink: ``sink(topic, key=...)``."""
    written = encode_element(key) if key is None or isinstance(key, tuple) else key_bytes(key)
    return partition_of(written, partitions)
