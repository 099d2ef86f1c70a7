"""Tables for CRC-32C, as one column of int64: what a byte does to a sum, and what a slice of zeros does to it."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

SLICE_BYTES = 1024
BYTES = 0
SHIFTS = 256
"""Where in the column the 256 sums of single bytes begin, and the four times 256 of a slice."""
_POLYNOMIAL = 0x82F63B78


@cache
def tables() -> NDArray[np.int64]:
    """The column; never written again."""
    sums = np.arange(256, dtype=np.int64)
    for _ in range(8):
        sums = (sums >> 1) ^ (_POLYNOMIAL * (sums & 1))
    shifted = np.array([[byte << (8 * place) for byte in range(256)] for place in range(4)], np.int64).ravel()
    for _ in range(SLICE_BYTES):
        shifted = sums[shifted & 0xFF] ^ (shifted >> 8)
    return np.concatenate([sums, shifted])
