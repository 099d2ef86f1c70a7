"""Exact sums of floats of each key: the steps of ``float_sums``, gained and lost, as limbs of 32 bits in columns.

A limb is a place of a table as any other one. Floats of one kind need three or four of the 67 that there can be, and
limbs that are zero for all keys have no column. Between two changes a limb is below 2**32, so equal sums have equal
limbs, and the larger of two sums is found from the highest limb on (R. M. Neal, "Fast exact summation using small and
large superaccumulators", 2015, has chunks of 32 bits too; deviation: gains and losses apart, and columns by chunk).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcrdt.lattices.columns import Groups, Indices, Ints
from wcrdt.lattices.exact_sums import float_sums
from wcrdt.lattices.exact_sums.float_sums import MOST_BITS, STEP_BITS, Floats
from wcrdt.lattices.keyed.decimals import DecimalLeaf
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.lattices.keyed.tallies import Amounts, AverageLeaf, Table, TallyLeaf

_RAISED, _LOWERED, _COUNT = 8, 9, 10
"""Places: infinities of either sign, and how many floats there were."""
_GAINED, _LOST = 100, 300
"""Of the lowest limb of each."""
_LIMBS = 70
_BITS = 32
_MASK = (1 << _BITS) - 1
_MANTISSA_BITS = 53
_PLACES = {_RAISED, _LOWERED, _COUNT, *range(_GAINED, _GAINED + _LIMBS), *range(_LOST, _LOST + _LIMBS)}
_ONE = np.ones(1, np.int64)


class SumLeaf(DecimalLeaf):
    """``Sum`` of ints, Decimals and floats."""

    __slots__ = ()

    def _fold_floats(self, numbers: Floats, groups: Groups) -> Amounts:
        found: Amounts = {_COUNT: groups.sizes()}
        if not np.isfinite(numbers).all():
            if np.isnan(numbers).any():
                raise Unfit
            for place, infinity in ((_RAISED, np.inf), (_LOWERED, -np.inf)):
                found[place] = np.add.reduceat(groups.arranged(numbers == infinity).astype(np.int64), groups.starts)
            numbers = np.where(np.isfinite(numbers), numbers, 0.0)
        numbers = groups.arranged(numbers)
        for first, column in ((_GAINED, numbers), (_LOST, -numbers)):
            if float(column.max()) > 0:
                found.update(_limbs_of_groups(np.maximum(column, 0.0), groups, first))
        return found

    def _carried(self, table: Table, positions: Indices, after: Amounts) -> Amounts:
        for first in (_GAINED, _LOST):
            places = _of(first, after)
            place, carry, last = min(places, default=0), _ONE - 1, max(places, default=-1)
            while place <= last or carry.any():
                limb = after[place] if place in after else table.read(place, positions)
                limb = limb + carry
                after[place], carry = limb & _MASK, limb >> _BITS
                place += 1
        return after

    def _larger(self, mine: Table, positions: Indices, before: Amounts, given: Amounts) -> Amounts:
        plain = {place: numbers for place, numbers in given.items() if place < _GAINED}
        after = super()._larger(mine, positions, before, plain)
        for first in (_GAINED, _LOST):
            if not _of(first, given):
                continue
            for place in _of(first, mine.columns):
                before[place] = before[place] if place in before else mine.read(place, positions)
            rises = _above(given, before, first, len(positions))
            for place in sorted({*_of(first, given), *_of(first, before)}):
                after[place] = np.where(rises, given.get(place, _ONE - 1), before[place])
        return after

    def _all_below(self, numbers: Amounts, theirs: Table, rows: Indices) -> bool:
        plain = {place: column for place, column in numbers.items() if place < _GAINED}
        if not super()._all_below(plain, theirs, rows):
            return False
        there = {place: theirs.at(place, rows) for place in theirs.columns if place >= _GAINED}
        return not any(_above(numbers, there, first, len(rows)).any() for first in (_GAINED, _LOST))

    def _possible(self, columns: Amounts, height: int) -> bool:
        plain = {place: column for place, column in columns.items() if place < _RAISED}
        floats = {place: column for place, column in columns.items() if place >= _RAISED}
        if not TallyLeaf._possible(self, plain, height) or not set(floats) <= _PLACES:
            return False
        counts = floats.get(_COUNT, np.zeros(height, np.int64))
        if any((column > _MASK).any() or ((column > 0) & (counts == 0)).any() for column in _limbs(floats)):
            return False
        if any((floats[place] > counts).any() for place in (_RAISED, _LOWERED) if place in floats):
            return False
        for first in (_GAINED, _LOST):
            high = [place for place in _of(first, floats) if (place - first + 1) * _BITS > MOST_BITS]
            rows = np.flatnonzero(np.any([floats[place] > 0 for place in high], axis=0)) if high else []
            steps = _numbers({place: floats[place][rows] for place in _of(first, floats)}, first, len(rows))
            for number, count in zip(steps, counts[rows].tolist(), strict=True):
                if number.bit_length() > MOST_BITS + count.bit_length():
                    return False
        return True

    def _read(self, totals: dict[int, Any], count: int) -> list[Any]:
        found = super()._read(totals, count)
        if _COUNT not in totals:
            return found
        mixed = np.zeros(count, np.bool_)
        for place in (0, 1, _RAISED, _LOWERED):
            mixed |= totals.get(place, _ONE - 1) != 0
        floats = totals[_COUNT] > 0
        rows = np.flatnonzero(floats & ~mixed)
        for row, value in zip(rows.tolist(), self._quotients(_taken(totals, rows), len(rows)), strict=True):
            found[row] = value
        rows = np.flatnonzero(floats & mixed)
        for row, numbers in zip(rows.tolist(), self._rows_of(_taken(totals, rows), len(rows)), strict=True):
            each = self.inner.bottom()
            each._rows[0] = numbers
            found[row] = each.value
        return found

    def _quotients(self, totals: dict[int, Any], count: int) -> list[float]:
        """The values of rows of nothing but finite floats: each is rounded once, from ints as short as they can be."""
        limbs = [place - first for first in (_GAINED, _LOST) for place in _of(first, totals)]
        low = min(limbs, default=0)
        gained, lost = (_numbers(totals, first + low, count) for first in (_GAINED, _LOST))
        shift = STEP_BITS - low * _BITS
        up, down = max(-shift, 0), max(shift, 0)
        return [
            float_sums.nearest((gain - loss) << up, divisor << down)
            for gain, loss, divisor in zip(gained, lost, self._divisors(totals, count), strict=True)
        ]

    def _divisors(self, totals: dict[int, Any], count: int) -> list[int]:
        return [1] * count

    def _rows_of(self, columns: Amounts, count: int) -> list[tuple[Any, ...]]:
        found = super()._rows_of(columns, count)
        if _COUNT not in columns:
            return found
        nothing = [0] * count
        others = [columns[p].tolist() if p in columns else nothing for p in (_RAISED, _LOWERED, _COUNT)]
        parts = zip(_numbers(columns, _GAINED, count), _numbers(columns, _LOST, count), *others, strict=True)
        return [row + part if part[-1] else row for row, part in zip(found, parts, strict=True)]

    def _columns_of(self, rows: list[Any]) -> Amounts:
        found = super()._columns_of([row[: self._width] for row in rows])
        floats = [row[self._width :] or float_sums.NONE for row in rows]
        gained, lost, *others = zip(*floats, strict=True)
        for place, column in zip((_RAISED, _LOWERED, _COUNT), others, strict=True):
            if any(column):
                found[place] = np.array(column, np.int64)
        for first, numbers in ((_GAINED, gained), (_LOST, lost)):
            found.update(_limbs_of_numbers(numbers, first))
        return found


class AverageOfFloatsLeaf(SumLeaf, AverageLeaf):
    """``Average`` of ints, Decimals and floats: place 2 counts elements that are no floats."""

    __slots__ = ()

    def _possible(self, columns: Amounts, height: int) -> bool:
        counts = columns.get(2, _ONE - 1) + columns.get(_COUNT, _ONE - 1)
        return SumLeaf._possible(self, columns, height) and bool((counts > 0).all())

    def _divisors(self, totals: dict[int, Any], count: int) -> list[int]:
        return (totals[_COUNT] + totals.get(2, _ONE - 1)).tolist()

    def _rows_of(self, columns: Amounts, count: int) -> list[tuple[Any, ...]]:
        rows = super()._rows_of(columns, count)
        return [(*row[:2], row[2] + row[-1], *row[3:]) if len(row) > self._width else row for row in rows]

    def _columns_of(self, rows: list[Any]) -> Amounts:
        return super()._columns_of(
            [(*row[:2], row[2] - row[-1], *row[3:]) if len(row) > self._width else row for row in rows]
        )


def _taken(columns: dict[int, Any], rows: Indices) -> dict[int, Any]:
    return {place: column[rows] for place, column in columns.items()}


def _of(first: int, places: Iterable[int]) -> list[int]:
    return [place for place in places if first <= place < first + _LIMBS]


def _limbs(columns: Amounts) -> list[Ints]:
    return [column for place, column in columns.items() if place >= _GAINED]


def _above(one: Amounts, other: Amounts, first: int, count: int) -> NDArray[np.bool_]:
    """In which rows the one long number is above the other."""
    above, tied = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for place in sorted({*_of(first, one), *_of(first, other)}, reverse=True):
        mine, theirs = one.get(place, _ONE - 1), other.get(place, _ONE - 1)
        above |= tied & (mine > theirs)
        tied &= mine == theirs
    return above


def _limbs_of_groups(sizes: Floats, groups: Groups, first: int) -> Amounts:
    """Sums of each group of floats, not below 0 and finite, arranged by group; limbs may be above 32 bits."""
    fractions, exponents = np.frexp(sizes)
    mantissas = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64)
    shifts = exponents.astype(np.int64) + (STEP_BITS - _MANTISSA_BITS)
    if int(shifts.min()) < 0:  # subnormal: the bits that go are zeros
        mantissas >>= np.maximum(-shifts, 0)
        shifts = np.maximum(shifts, 0)
    limbs, shifts = shifts >> 5, shifts & 31
    low, high = (mantissas & _MASK) << shifts, (mantissas >> _BITS) << shifts
    pieces = low & _MASK, (low >> _BITS) + (high & _MASK), high >> _BITS
    present = sizes > 0
    least, most = int(limbs[present].min()), int(limbs[present].max())
    found: Amounts = {}
    for limb in range(least, most + len(pieces)):
        total: Any = 0
        for offset, piece in enumerate(pieces):
            if least <= limb - offset <= most:
                total = total + (piece if least == most else np.where(limbs == limb - offset, piece, 0))
        found[first + limb] = np.add.reduceat(total, groups.starts)
    return found


def _numbers(columns: Amounts, first: int, count: int) -> list[int]:
    """The long number of each row."""
    total: Any = np.zeros(count, object)
    for place in _of(first, columns):
        total = total + (columns[place].astype(object) << (_BITS * (place - first)))
    return total.tolist()


def _limbs_of_numbers(numbers: Iterable[int], first: int) -> Amounts:
    known = list(numbers)
    width = (max(known).bit_length() + _BITS - 1) // _BITS
    if width > _LIMBS:
        raise Unfit
    data = b"".join(number.to_bytes(width * 4, "little") for number in known)
    limbs = np.frombuffer(data, "<u4").reshape(len(known), width)
    return {first + limb: limbs[:, limb].astype(np.int64) for limb in range(width) if limbs[:, limb].any()}
