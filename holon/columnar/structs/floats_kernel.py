"""Part of the compiled loop: decimal numbers to the nearest float.

Where one operation on exact floats is enough: Clinger, "How to read floating point numbers accurately" (PLDI 1990).
Else: Lemire, "Number parsing at a gigabyte per second" (Software: Practice and Experience 51, 2021), section 5.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.structs.powers import EXACT, GREATEST, LEAST
from holon.columnar.vectors import bits_of, float_of, high_product, leading_zeros, number_at

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
inlined = numba.njit(forceinline=True, **_OPTIONS)

_LOW_BITS = 0x1FF


@inlined
def float_bits(digits, exponent, negative, whole, powers):
    """The bits of the float nearest to ``digits * 10**exponent``, and whether they are certain.

    ``powers``: the address of ``powers.table()``. Not certain are ties that 128 bits do not decide, what is no normal
    float, and minus zero that is written as an integer.
    """
    sign = np.int64(-(2**63)) if negative else np.int64(0)
    if digits == 0:
        return sign, not (negative and whole)
    if digits <= np.uint64(2**53) and -EXACT <= exponent <= EXACT:  # both are floats, and one operation rounds once
        power_of_ten = float_of(number_at(powers, 2 * (GREATEST - LEAST + 1) + abs(exponent)))
        number = np.float64(digits)
        return sign | bits_of(number / power_of_ten if exponent < 0 else number * power_of_ten), True
    if exponent < LEAST or exponent > GREATEST:
        return sign, False
    zeros = leading_zeros(digits)
    factor = digits << np.uint64(zeros)
    power = 2 * (exponent - LEAST)
    high = high_product(factor, np.uint64(number_at(powers, power)))
    low = factor * np.uint64(number_at(powers, power))
    binary = ((217_706 * exponent) >> 16) + 64 + 1023 - zeros
    if (high & np.uint64(_LOW_BITS)) == np.uint64(_LOW_BITS) and low + factor < factor:
        finer = np.uint64(number_at(powers, power + 1))
        more = low + high_product(factor, finer)
        high += np.uint64(more < low)
        low = more
        below = factor * finer
        if (
            (high & np.uint64(_LOW_BITS)) == np.uint64(_LOW_BITS)
            and low + np.uint64(1) == 0
            and below + factor < factor
        ):
            return sign, False
    top = np.int64(high >> np.uint64(63))
    mantissa = high >> np.uint64(top + 9)
    binary -= 1 ^ top
    if low == 0 and (high & np.uint64(_LOW_BITS)) == 0 and (mantissa & np.uint64(3)) == np.uint64(1):
        return sign, False
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >> np.uint64(53):
        mantissa >>= np.uint64(1)
        binary += 1
    if binary < 1 or binary > 2046:
        return sign, False
    return sign | (binary << 52) | np.int64(mantissa & np.uint64(2**52 - 1)), True
