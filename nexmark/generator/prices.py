"""Log-uniform prices, 100 * 10**(6u) cents, without floating point.

`pow` may differ in the last bit between maths libraries, and a price would then differ between machines. So the curve
is a table of 2**16 + 1 points in fixed point, made by integer square roots and products, with linear interpolation
between them. It is within 6e-9 (relative) of the exact curve, so a price differs from the exact one by a cent at most.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

MIN_PRICE, MAX_PRICE = 100, 100_000_000

_POINT_BITS = 16
_BETWEEN_BITS = 24
_FRACTION_BITS = 24  # of a table entry: 1e8 * 2**24 < 2**51, and a step times 2**24 stays below 2**63
_WORK_BITS = 160  # of the products that fill the table: their error stays far below one unit of an entry


def prices(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """round(100 * 10**(6u)) for u = the upper 40 bits of each draw / 2**40."""
    table = price_table()
    point = (bits >> np.uint64(64 - _POINT_BITS)).astype(np.int64)
    between = (bits << np.uint64(_POINT_BITS) >> np.uint64(64 - _BETWEEN_BITS)).astype(np.int64)
    low = table[point]
    exact = low + ((table[point + 1] - low) * between >> _BETWEEN_BITS)
    return (exact + (1 << (_FRACTION_BITS - 1))) >> _FRACTION_BITS


@lru_cache(maxsize=1)
def price_table() -> NDArray[np.int64]:
    """Entry k is floor(100 * 10**(6k / 2**16) * 2**24)."""
    step = MAX_PRICE // MIN_PRICE << _WORK_BITS
    for _ in range(_POINT_BITS):
        step = isqrt(step << _WORK_BITS)  # the 2**16-th root, one square root at a time
    entries = []
    price = MIN_PRICE << _WORK_BITS
    for _ in range((1 << _POINT_BITS) + 1):
        entries.append(price >> (_WORK_BITS - _FRACTION_BITS))
        price = price * step >> _WORK_BITS
    return np.array(entries, dtype=np.int64)
