"""Tallies: for each actor a row of numbers that only grow; the base of counters, sums, averages and histograms.

Merge takes the larger number of each place. Law it rests on: the rows of one actor come from one history, so of two
rows one is everywhere at least the other. (GCounter and PN-Counter: Shapiro et al., "A comprehensive study of CRDTs",
specifications 6 and 7; signed sums are split into gains and losses so that both only grow.)
"""

from __future__ import annotations

from operator import add
from typing import Any, ClassVar, Self

from wcrdt.codec import element_to_wire, index_from_wire, int_from_wire, number_from_wire, require
from wcrdt.elements import exact_add
from wcrdt.lattice import E, V, type_of_wire
from wcrdt.lattices.folding import Folding, require_combining, require_same

Number = Any  # int | Decimal, not below 0
Row = tuple[Number, ...]


class Tallies(Folding[E, V]):
    """Actor -> row of ``width`` numbers. A partial is a row to add; rows of zeros are not kept."""

    __slots__ = ("_rows",)

    combines = True
    hands_over = True
    width: int
    _add: ClassVar[Any] = staticmethod(add)

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}

    def bottom(self) -> Self:
        return type(self)()

    def absorb(self, partial: Row, actor: int) -> bool:
        if not any(partial):
            return False
        row = self._rows.get(actor)
        self._rows[actor] = partial if row is None else tuple(map(self._add, row, partial))
        return True

    def own(self, actor: int) -> Self:
        part = self.bottom()
        row = self._rows.get(actor)
        if row is not None:
            part._rows[actor] = row
        return part

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        rows = self._rows
        changed = False
        for actor, theirs in other._rows.items():
            mine = rows.get(actor)
            if mine is None:
                rows[actor] = theirs
                changed = True
            elif mine != theirs:
                joined = tuple(map(max, mine, theirs))
                if joined != mine:
                    rows[actor] = joined
                    changed = True
        return changed

    def combine(self, other: Self) -> None:
        """All rows become one, of actor 0: a row for each actor would only be larger."""
        require_combining(self, other)
        mine, theirs = self.totals(), other.totals()
        self._rows = {}
        self.absorb(mine, 0)
        self.absorb(theirs, 0)

    def leq(self, other: Self) -> bool:
        zeros = (0,) * self.width
        return all(
            all(a <= b for a, b in zip(row, other._rows.get(actor, zeros), strict=True))
            for actor, row in self._rows.items()
        )

    def totals(self) -> Row:
        """The row of sums over all actors."""
        total: Row = (0,) * self.width
        for row in self._rows.values():
            total = tuple(map(self._add, total, row))
        return total

    def to_wire(self) -> type_of_wire:
        return [[actor, *map(element_to_wire, self._rows[actor])] for actor in sorted(self._rows)]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        before: int | None = None
        require(type(wire) is list, "a list was expected")
        for entry in wire:
            require(type(entry) is list and len(entry) > 0, "a row begins with its actor")
            actor = index_from_wire(entry[0])
            require(before is None or before < actor, "actors must ascend")
            fresh._rows[actor] = self._row_from_wire(entry[1:])
            before = actor
        return fresh

    def _row_from_wire(self, wire: list[type_of_wire]) -> Row:
        require(len(wire) == self.width, f"rows of {self.width} numbers were expected")
        row = tuple(map(self._number, wire))
        require(all(number >= 0 for number in row) and any(row), "a tally is negative or empty")
        require(self._possible(row), "a tally is one that no elements give")
        return row

    @staticmethod
    def _possible(row: Row) -> bool:
        """False for a row that no sequence of elements gives, beyond negative and empty ones."""
        return True

    @staticmethod
    def _number(wire: type_of_wire) -> Number:
        return int_from_wire(wire)


class ExactTallies(Tallies[E, V]):
    """Tallies that hold Decimals beside ints."""

    __slots__ = ()
    _add = staticmethod(exact_add)

    @staticmethod
    def _number(wire: type_of_wire) -> Number:
        return number_from_wire(wire)
