"""Random numbers from a seed and a counter: the same in every rerun and on every machine."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

T = TypeVar("T")


class DeterministicRandom:
    """Draws from BLAKE2b of (seed, n). Uniform; not for secrets, since the seed is no secret."""

    __slots__ = ("_n", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed = blake2b(seed, digest_size=32).digest()
        self._n = 0

    def bytes(self, count: int) -> bytes:
        """``count`` random bytes."""
        drawn = b""
        while len(drawn) < count:
            drawn += blake2b(self._n.to_bytes(8, "big"), key=self._seed, digest_size=64).digest()
            self._n += 1
        return drawn[:count]

    def random(self) -> float:
        """In [0, 1), 53 bits."""
        return (int.from_bytes(self.bytes(8), "big") >> 11) / (1 << 53)

    def randrange(self, stop: int) -> int:
        """In [0, stop), without bias; ``stop`` is at least 1."""
        if stop < 1:
            raise ValueError(f"randrange({stop}) is empty")
        count = (stop.bit_length() + 7) // 8 + 1
        limit = (1 << 8 * count) // stop * stop
        while (drawn := int.from_bytes(self.bytes(count), "big")) >= limit:
            pass
        return drawn % stop

    def randint(self, low: int, high: int) -> int:
        """In [low, high], both included."""
        return low + self.randrange(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.randrange(len(items))]

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """In place."""
        for i in range(len(items) - 1, 0, -1):
            j = self.randrange(i + 1)
            items[i], items[j] = items[j], items[i]

    def uuid(self) -> str:
        """A UUID of version 4, as text."""
        raw = bytearray(self.bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
