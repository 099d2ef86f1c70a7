"""Draws for requests as functions of seed, stream and request number: any slice of them can be made alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

STREAMS = 128
"""Independent streams of one seed."""


def uniform(numbers: NDArray[np.uint64], stream: int) -> NDArray[np.float64]:
    """In [0, 1), from SplitMix64 of (stream, number)."""
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(stream << 40 & 0xFFFFFFFFFFFFFFFF)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / float(1 << 53)


@lru_cache(maxsize=16)
def _weights(count: int, zipf: float) -> NDArray[np.float64]:
    return np.cumsum(1.0 / np.arange(1, count + 1) ** zipf, dtype=np.float64)


class Draws:
    """For requests ``first`` to ``first + count``: one list entry each."""

    def __init__(self, seed: int, first: int, count: int) -> None:
        self._numbers = np.arange(first, first + count, dtype=np.uint64)
        self._base = seed * STREAMS

    def share(self, stream: int) -> list[float]:
        """In [0, 1)."""
        assert 0 <= stream < STREAMS, stream
        return uniform(self._numbers, self._base + stream).tolist()

    def below(self, stream: int, stop: int) -> list[int]:
        """In [0, stop), uniform."""
        assert 0 <= stream < STREAMS, stream
        return (uniform(self._numbers, self._base + stream) * stop).astype(np.int64).tolist()

    def zipf(self, stream: int, stop: int, exponent: float) -> list[int]:
        """In [0, stop), 0 the most frequent; exponent 0 is uniform."""
        assert 0 <= stream < STREAMS, stream
        weights = _weights(stop, exponent)
        drawn = uniform(self._numbers, self._base + stream) * weights[-1]
        return np.searchsorted(weights, drawn, side="right").tolist()
