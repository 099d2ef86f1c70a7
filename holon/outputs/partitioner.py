"""murmur2 as Kafka's default partitioner computes it, so that keys land on the same partition from every client."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from wcrdt.lattices.keyed.spans import KeySpans, masked_words

_WORDS = Struct("<I")
_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK, _POSITIVE = 0xFFFFFFFF, 0x7FFFFFFF
_M32, _SHIFT = np.uint32(_M), np.uint32(24)
_WORD = 4
_SHORT = 64
"""Longer rows are hashed one by one: there are few, and each would need a round for each of its words."""
_MANY = 100
"""From so many keys of a few words on, arrays are quicker than a loop."""


def murmur2(key: bytes) -> int:
    """32-bit hash with Kafka's seed."""
    length = len(key)
    h = (_SEED ^ length) & _MASK
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
    return (murmur2(key) & _POSITIVE) % partitions


def partitions_of(keys: Sequence[bytes], partitions: int) -> list[int]:
    """``partition_of`` each key; many together where that is quicker."""
    if len(keys) < _MANY:
        return [partition_of(key, partitions) for key in keys]
    return partitions_of_rows(KeySpans.of(keys), partitions).tolist()


def key_bytes(key: str | bytes | int) -> bytes:
    """A record's key: texts as UTF-8, ints by their digits."""
    return key if isinstance(key, bytes) else str(key).encode()


def key_or_none(key: str | bytes | int | None) -> bytes | None:
    """The same; None for no key."""
    return None if key is None else key_bytes(key)


def murmur2_of_rows(rows: KeySpans) -> NDArray[np.int64]:
    """``murmur2`` of each row: a word of all short rows at a time."""
    lengths = rows.lengths
    h = (np.int64(_SEED) ^ lengths).astype(np.uint32)
    short = lengths <= _SHORT
    whole = np.where(short, lengths // _WORD, 0)
    for word in range(int(whole.max(initial=0))):
        at = np.flatnonzero(whole > word)
        k = _words(rows, at, word) * _M32
        h[at] = h[at] * _M32 ^ (k ^ k >> _SHIFT) * _M32
    at = np.flatnonzero(short & (lengths % _WORD > 0))
    if len(at):
        h[at] = (h[at] ^ _words(rows, at, whole[at])) * _M32
    h = (h ^ h >> np.uint32(13)) * _M32
    found = (h ^ h >> np.uint32(15)).astype(np.int64)
    at = np.flatnonzero(~short)
    found[at] = list(map(murmur2, rows.take(at).tolist()))
    return found


def _words(rows: KeySpans, at: NDArray[np.intp], word: int | NDArray[np.int64]) -> NDArray[np.uint32]:
    """The word of that number in these rows, or what is left there."""
    begins = rows.starts[at] + word * _WORD
    return masked_words(rows.buffer, begins, np.minimum(rows.ends[at] - begins, _WORD)).astype(np.uint32)


def partitions_of_rows(rows: KeySpans, partitions: int) -> NDArray[np.int64]:
    """``partition_of`` each row."""
    return (murmur2_of_rows(rows) & _POSITIVE) % partitions
