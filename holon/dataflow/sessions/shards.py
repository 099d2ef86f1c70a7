"""Shards: which partition answers for the sessions of a key. The same on every node, and in every run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from holon.outputs.partitioner import murmur2
from wcrdt.codec import encode_element

_KEPT = 1 << 16


@lru_cache(_KEPT)
def shard_of(key: Any, partitions: int) -> int:
    """The partition, as Kafka's default partitioner takes it for the key of a sink: ``sink(topic, key=...)``."""
    return (murmur2(_key_bytes(key)) & 0x7FFFFFFF) % partitions


def _key_bytes(key: Any) -> bytes:
    """Texts as UTF-8, ints by their digits, as a sink writes them; None and tuples in their canonical form."""
    if isinstance(key, bytes):
        return key
    return str(key).encode() if isinstance(key, str | int) else encode_element(key)
