"""murmur2 as Kafka's default partitioner computes it, so that keys land on the same partition from every client."""

from __future__ import annotations

from struct import Struct

_WORDS = Struct("<I")
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """32-bit hash with Kafka's seed."""
    length = len(key)
    h = (0x9747B28C ^ length) & _MASK
    whole = length - length % 4
    for (word,) in _WORDS.iter_unpack(key[:whole]):
        k = word * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if length % 4:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def key_bytes(key: str | bytes | int) -> bytes:
    """A record's key: texts as UTF-8, ints by their digits."""
    return key if isinstance(key, bytes) else str(key).encode()
