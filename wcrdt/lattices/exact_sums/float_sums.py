"""Exact sums of floats: what sums and averages hold of them, and how columns of them are folded.

A finite float is a whole number of steps of 2**-1074, the smallest subnormal. So a sum of floats is one Python int,
exact whatever the order and the grouping; it is rounded once, when it is read (R. M. Neal, "Fast exact summation using
small and large superaccumulators", 2015; deviation: one long int in place of an array of 67 chunks, since Python adds
those fast). Columns are cut into slices whose sums no rounding touches (P. Ahrens, J. Demmel, H. D. Nguyen, "Algorithms
for efficient reproducible floating point summation", ACM TOMS 46(3), 2020; the cut itself is ``ExtractVector`` of S. M.
Rump, T. Ogita, S. Oishi, "Accurate floating-point summation, part I", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcrdt.codec import element_to_wire, index_from_wire, int_from_wire, require
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, magnitude

Floats = NDArray[np.float64]

STEP_BITS = 1074
WIDTH = 5
"""Places of a row: steps gained, steps lost, infinities of either sign, and how many floats there were at all."""
NONE = (0,) * WIDTH
WIRE_WIDTH = WIDTH + 2
MOST_BITS = STEP_BITS + 1024
"""Steps of one float have at most so many."""
_MANTISSA_BITS = 53
_SIGNIFICAND = float(1 << _MANTISSA_BITS)
_MOST_SLICES = 8
"""Rows that need more are added one by one: their magnitudes lie further apart than 240 bits."""
_LARGEST_EXPONENT = 1023


def steps_of(number: float) -> int:
    """A finite float as a whole number of steps."""
    mantissa, exponent = math.frexp(number)
    shift = exponent + STEP_BITS - _MANTISSA_BITS
    whole = int(mantissa * _SIGNIFICAND)
    return whole << shift if shift >= 0 else whole >> -shift


def float_part(number: float) -> tuple[int, ...]:
    """The row of one float. Raises ``ValueError`` for NaN."""
    if number >= 0:
        return (0, 0, 1, 0, 1) if math.isinf(number) else (steps_of(number), 0, 0, 0, 1)
    if math.isnan(number):
        raise not_added()
    return (0, 0, 0, 1, 1) if math.isinf(number) else (0, steps_of(-number), 0, 0, 1)


def not_added() -> ValueError:
    """The refusal of NaN."""
    return ValueError("NaN cannot be added up: every sum with it would be NaN")


def is_float(element: Any) -> bool:
    """Whether this is a float of Python or NumPy, of at most 64 bits."""
    return isinstance(element, float) or (isinstance(element, np.floating) and element.dtype.itemsize <= 8)


def float_column(column: Any) -> Floats | None:
    """The column as float64, if it is a numpy array of floats of at most 64 bits."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind != "f" or column.dtype.itemsize > 8:
        return None
    return column.astype(np.float64, copy=False)


def fold_floats(column: Floats, groups: Groups) -> list[tuple[int, ...]]:
    """For each group the row of its floats. Raises ``ValueError`` for NaN."""
    nones = [0] * len(groups.starts)
    raised, lowered = nones, nones
    low, high = float(column.min()), float(column.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        if math.isnan(low):
            raise not_added()
        raised, lowered = _counts(column == math.inf, groups), _counts(column == -math.inf, groups)
        column = np.where(np.isfinite(column), column, 0.0)
        low, high = float(column.min()), float(column.max())
    column = groups.arranged(column)
    signs = np.copysign(1.0, column) if low < 0 < high else None
    weights = (None,) if signs is None else (None, signs)
    sizes, *signed = exact_totals(np.abs(column), weights, groups.starts, largest=max(high, -low))
    gained, lost = (sizes, nones) if high > 0 else (nones, sizes)
    if signed:
        gained, lost = gains_and_losses(sizes, signed[0])
    return list(zip(gained, lost, raised, lowered, groups.sizes().tolist(), strict=True))


def gains_and_losses(sizes: list[int], signed: list[int]) -> tuple[list[int], list[int]]:
    """Sums of the positive and the negative rows of each group, from those without and with their signs."""
    gained = [(size + total) >> 1 for size, total in zip(sizes, signed, strict=True)]
    return gained, [size - gain for size, gain in zip(sizes, gained, strict=True)]


def _counts(rows: NDArray[np.bool_], groups: Groups) -> list[int]:
    return np.add.reduceat(groups.arranged(rows).astype(np.int64), groups.starts).tolist()


def exact_totals(
    rest: Floats, weights: Sequence[Floats | None], starts: Indices, *, largest: float | None = None
) -> list[list[int]]:
    """Exact sums of each group, in steps, of these floats times each of the weights, which are 1 or -1 a row (None: 1).

    ``rest`` is used up; none of it is above ``largest`` without its sign. A slice holds of each float its bits above a
    common place: chosen so high, by the largest one and their number, that every sum of them is exact. The rest of the
    floats is exact too, and goes on to the next slice.
    """
    totals = [[0] * len(starts) for _ in weights]
    room_bits = len(rest).bit_length() + 1
    part = np.empty_like(rest)
    largest = magnitude(rest) if largest is None else largest
    for _ in range(_MOST_SLICES):
        exponent = math.frexp(largest)[1] + room_bits
        if not largest or exponent > _LARGEST_EXPONENT:
            break
        place = math.ldexp(1.0, exponent)
        np.add(rest, place, out=part)
        part -= place
        rest -= part
        totals = [_added(before, part, weight, starts) for before, weight in zip(totals, weights, strict=True)]
        largest = magnitude(rest) if np.bitwise_or.reduce(rest.view(np.int64)) else 0.0
    for row in np.flatnonzero(rest).tolist() if largest else ():
        group = int(np.searchsorted(starts, row, side="right")) - 1
        steps = steps_of(float(rest[row]))
        for total, weight in zip(totals, weights, strict=True):
            total[group] += steps if weight is None or weight[row] > 0 else -steps
    return totals


def _added(totals: list[int], part: Floats, weight: Floats | None, starts: Indices) -> list[int]:
    """Totals with the sums of a slice, none of which is rounded."""
    if len(starts) == 1:
        sums = [float(part.sum() if weight is None else np.einsum("i,i->", part, weight))]
    else:
        sums = np.add.reduceat(part if weight is None else part * weight, starts).tolist()
    return [total + steps_of(each) if each else total for total, each in zip(totals, sums, strict=True)]


def rounded(exact: Fraction, part: tuple[int, ...], count: int, degree: int) -> float:
    """``exact`` and the floats of this part together, divided by ``count``: rounded once.

    NaN if infinities of both signs are among them. ``degree``: 2 where the part holds products of two.
    """
    gained, lost, raised, lowered, _ = part
    if raised or lowered:
        return math.nan if raised and lowered else math.inf if raised else -math.inf
    one = degree * STEP_BITS
    steps = gained - lost
    if not exact:
        return nearest(steps, count << one)
    return nearest((exact.numerator << one) + steps * exact.denominator, (count << one) * exact.denominator)


def nearest(above: int, below: int) -> float:
    """The float nearest to the quotient, ties to even; infinite beyond the largest one."""
    try:
        return above / below
    except OverflowError:
        return math.inf if (above > 0) == (below > 0) else -math.inf


def part_to_wire(part: tuple[int, ...]) -> list[type_of_wire]:
    """Steps are written as an odd number and how many zero bits follow it: most are divisible by 2**1000."""
    gained, lost, *others = part
    return [*_odd_to_wire(gained), *_odd_to_wire(lost), *others]


def part_from_wire(wire: list[type_of_wire], degree: int = 1) -> tuple[int, ...]:
    """Inverse of ``part_to_wire``; raises ``DecodeError`` for what no floats, or products of ``degree`` ones, give."""
    raised, lowered, count = map(index_from_wire, wire[4:])
    require(raised >= 0 and lowered >= 0 and count >= max(1, raised, lowered), "a count of floats is none")
    most_bits = degree * MOST_BITS + count.bit_length()
    return _steps_from(wire[0], wire[1], most_bits), _steps_from(wire[2], wire[3], most_bits), raised, lowered, count


def _odd_to_wire(steps: int) -> tuple[type_of_wire, int]:
    zeros = (steps & -steps).bit_length() - 1 if steps else 0
    return element_to_wire(steps >> zeros), zeros


def _steps_from(odd: type_of_wire, zeros: type_of_wire, most_bits: int) -> int:
    number, zeros = int_from_wire(odd), index_from_wire(zeros)
    require(number >= 0 and zeros >= 0 and number.bit_length() + zeros <= most_bits, "a sum of floats is out of range")
    require(number % 2 == 1 or (number, zeros) == (0, 0), "a sum of floats is not in its shortest form")
    return number << zeros
