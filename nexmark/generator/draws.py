"""Random numbers as a pure function of (seed, field, event number): splitmix64 used as a counter-based generator.

The n-th output of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) is a mix of
`state + (n + 1) * GAMMA`, so any output can be computed alone. Each field has a state of its own, hence adding a field
moves no other one. Only integer arithmetic modulo 2**64: equal on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_FIRST_FACTOR = 0xBF58476D1CE4E5B9
_SECOND_FACTOR = 0x94D049BB133111EB
_LOW_HALF = np.uint64(0xFFFFFFFF)


def field_state(seed: int, field: int) -> int:
    """The SplitMix64 state of one field under a seed (any integer; taken modulo 2**64)."""
    return _mixed((_mixed((seed + _GAMMA) & _MASK) + field * _GAMMA) & _MASK)


def draw(state: int, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 random bits for each event number (not negative)."""
    bits = numbers.astype(np.uint64)
    bits += np.uint64(1)
    bits *= np.uint64(_GAMMA)
    bits += np.uint64(state)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(_FIRST_FACTOR)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(_SECOND_FACTOR)
    bits ^= bits >> np.uint64(31)
    return bits


def high_below(bits: NDArray[np.uint64], bound: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Uniform integers in [0, bound) from the upper 32 bits; the bias is below bound / 2**32. bound < 2**31."""
    return _scaled(bits >> np.uint64(32), bound)


def low_below(bits: NDArray[np.uint64], bound: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """As `high_below`, from the lower 32 bits, so that one draw serves two independent choices."""
    return _scaled(bits & _LOW_HALF, bound)


def _scaled(half: NDArray[np.uint64], bound: int | NDArray[np.int64]) -> NDArray[np.int64]:
    factor = np.uint64(bound) if isinstance(bound, int) else bound.astype(np.uint64)
    return ((half * factor) >> np.uint64(32)).astype(np.int64)


def _mixed(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * _FIRST_FACTOR) & _MASK
    bits = ((bits ^ (bits >> 27)) * _SECOND_FACTOR) & _MASK
    return bits ^ (bits >> 31)
