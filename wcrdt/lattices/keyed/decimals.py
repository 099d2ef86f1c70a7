"""Exact sums of Decimals of each key: mantissas in the places of ints, with as many digits behind the point for all.

How many digits a leaf has in memory depends on what it has met. On the wire they are the fewest that hold all of its
sums, so equal values have equal bytes. Where mantissas leave 64 bits with the fewest digits too, objects hold the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from wcrdt.codec import index_from_wire, require
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, magnitude
from wcrdt.lattices.exact_sums.decimals import (
    MOST_DIGITS,
    digits_of,
    mantissa_of,
    numbers_of,
    raised,
    scaled_column,
    trailing_zeros,
)
from wcrdt.lattices.exact_sums.sums import Average
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.lattices.keyed.leaves import AnyLattice, Mask
from wcrdt.lattices.keyed.tallies import Amounts, TallyLeaf

_GAINED, _LOST = 0, 1
_SCALED = _GAINED, _LOST
"""Places of mantissas."""
_INT64_MAX = 2**63 - 1


class DecimalLeaf(TallyLeaf):
    """Tables of ``Sum`` and ``Average``; what is folded are the digits behind the point, and the amounts."""

    __slots__ = ("_digits",)

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._digits = 0

    def empty(self) -> Self:
        fresh = super().empty()
        fresh._digits = self._digits
        return fresh

    # --- digits ---------------------------------------------------------------------------------------------------

    def _mantissas(self) -> list[Ints]:
        tables = self._tables.values()
        return [table.columns[place] for table in tables for place in _SCALED if place in table.columns]

    def _fewest(self) -> int:
        """Digits that hold all sums."""
        return self._digits - trailing_zeros(self._mantissas(), self._digits) if self._digits else 0

    def _with_digits(self, digits: int) -> Self:
        """The same sums with so many digits; itself where it has them. Raises ``Unfit``."""
        if digits == self._digits:
            return self
        fresh = self.empty()
        fresh._digits = digits
        for actor, table in self._tables.items():
            fresh._tables[actor] = made = table.copy()
            for place in filter(table.columns.__contains__, _SCALED):
                made.columns[place] = _changed(table.columns[place], digits - self._digits)
        return fresh

    def _take_digits(self, digits: int) -> None:
        self._tables, self._digits = self._with_digits(digits)._tables, digits

    def _common(self, other: DecimalLeaf) -> tuple[Any, Any]:
        """Both with equally many digits. Raises ``Unfit``."""
        digits = max(self._digits, other._digits)
        try:
            return self._with_digits(digits), other._with_digits(digits)
        except Unfit:
            digits = max(self._fewest(), other._fewest())
            return self._with_digits(digits), other._with_digits(digits)

    # --- growing --------------------------------------------------------------------------------------------------

    def fold(self, column: Any, groups: Groups) -> Any:
        scaled = scaled_column(column) if hasattr(column, "scaled") else None
        if scaled is None:
            try:
                return 0, super().fold(column, groups)
            except Unfit:
                scaled = scaled_column(column)
        if scaled is None or magnitude(scaled[0]) * len(scaled[0]) > _INT64_MAX:
            raise Unfit
        return scaled[1], self._fold_ints(scaled[0], groups)

    def prepare(self, rows: Indices, folded: Any, actor: int, height: int) -> tuple[Any, Mask]:
        digits, amounts = folded
        try:
            return super().prepare(rows, self._agreed(digits, amounts), actor, height)
        except Unfit:
            fewest = digits - trailing_zeros((amounts[place] for place in _SCALED if place in amounts), digits)
            if self._fewest() == self._digits and fewest == digits:
                raise
            self._take_digits(self._fewest())
            return super().prepare(rows, self._agreed(fewest, _moved(amounts, fewest - digits)), actor, height)

    def _agreed(self, digits: int, amounts: Amounts) -> Amounts:
        """The amounts with the digits of this leaf, which gets more where it has fewer. Raises ``Unfit``."""
        if digits > self._digits:
            self._take_digits(digits)
        return _moved(amounts, self._digits - digits)

    def prepare_join(self, rows: Indices, other: Any, height: int) -> tuple[Any, bool]:
        mine, theirs = self._common(other)
        if mine is not self:
            self._tables, self._digits = mine._tables, mine._digits
        return super().prepare_join(rows, theirs, height)

    def _together(self, height: int) -> Any:
        return self._digits, super()._together(height)

    def leq(self, rows: Indices, other: Any) -> bool:
        mine, theirs = self._common(other)
        return TallyLeaf.leq(mine, rows, theirs)

    # --- reading --------------------------------------------------------------------------------------------------

    def columns(self, rows: Indices) -> Any:
        return self._read(self._totals(rows), len(rows)) if self._digits else super().columns(rows)

    def _read(self, totals: dict[int, Any], count: int) -> list[Any]:
        if not self._digits:
            return super()._read(totals, count)
        nothing = np.zeros(count, np.int64)
        sums = (totals.get(_GAINED, nothing) - totals.get(_LOST, nothing)).tolist()
        if type(self.inner) is not Average:
            return numbers_of(sums, self._digits)
        power, counts = 10**self._digits, totals.get(2, nothing).tolist()
        return [Fraction(total, each * power) if each else None for total, each in zip(sums, counts, strict=True)]

    # --- wire -----------------------------------------------------------------------------------------------------

    def to_wire(self, rows: Indices) -> type_of_wire:
        """As tables are, behind the number of digits where that is not 0."""
        leaf = self._with_digits(self._fewest())
        wire: Any = TallyLeaf.to_wire(leaf, rows)
        return [leaf._digits, *wire] if leaf._digits else wire

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        if not (type(wire) is list and wire and type(wire[0]) is int):
            return super().from_wire(wire, height)
        fresh = super().from_wire(wire[1:], height)
        fresh._digits = index_from_wire(wire[0])
        require(0 < fresh._digits <= MOST_DIGITS, "digits behind the point are too many, or none")
        require(fresh._fewest() == fresh._digits, "fewer digits behind the point hold these sums")
        return fresh

    # --- objects --------------------------------------------------------------------------------------------------

    def _rows_of(self, columns: Amounts, count: int) -> list[tuple[Any, ...]]:
        rows = super()._rows_of(columns, count)
        if not self._digits:
            return rows
        gained, lost = (numbers_of((row[place] for row in rows), self._digits) for place in _SCALED)
        return [(gain, loss, *row[2:]) for gain, loss, row in zip(gained, lost, rows, strict=True)]

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        rows = [row for each in lattices for row in each._rows.values()]
        shaped: Any = self.empty()
        shaped._digits = max((digits_of(row[place]) for row in rows for place in _SCALED), default=0)
        if shaped._digits > MOST_DIGITS:
            raise Unfit
        found: Any = TallyLeaf.of_lattices(shaped, lattices)
        return found

    def _columns_of(self, rows: list[Any]) -> Amounts:
        if self._digits:
            rows = [(*(mantissa_of(row[place], self._digits) for place in _SCALED), *row[2:]) for row in rows]
        return super()._columns_of(rows)


def _changed(column: Ints, digits: int) -> Ints:
    """Mantissas with so many more digits behind the point, or fewer where those are zeros. Raises ``Unfit``."""
    if digits < 0:
        return column // 10**-digits
    found = raised(column, digits)
    if found is None:
        raise Unfit
    return found


def _moved(amounts: Amounts, digits: int) -> Amounts:
    """Amounts with so many more digits behind the point of mantissas, or fewer. Raises ``Unfit``."""
    if not digits:
        return amounts
    return {place: _changed(each, digits) if place in _SCALED else each for place, each in amounts.items()}
