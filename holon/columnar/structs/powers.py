"""Powers of ten as the compiled loop needs them: 128 bits of each, rounded down, and as floats where they are exact."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

LEAST, GREATEST = -348, 347
"""With at most 19 digits in front, other powers give no normal float."""
EXACT = 22
"""Greatest power that is a float."""
_BITS = 128


@functools.cache
def table() -> NDArray[np.int64]:
    """High and low half of each power's most significant bits, from the least power on; then the exact floats."""
    halves: list[int] = []
    for exponent in range(LEAST, GREATEST + 1):
        bits = _leading_bits(exponent)
        halves += [bits >> 64, bits & (1 << 64) - 1]
    floats = np.array([float(10**exponent) for exponent in range(EXACT + 1)])
    return np.concatenate([np.array(halves, np.uint64).view(np.int64), floats.view(np.int64)])


def _leading_bits(exponent: int) -> int:
    if exponent >= 0:
        power = 10**exponent
        return power << _BITS >> power.bit_length()
    power = 10**-exponent
    shift = power.bit_length() + _BITS
    found = (1 << shift) // power
    return found >> found.bit_length() - _BITS
