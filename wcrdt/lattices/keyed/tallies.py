"""Tallies of each key as columns: counts, sums, averages and histograms, for each actor a table of its own.

A row of a table has a number in each of several places, all of which only grow. A place that is zero in all rows has no
column. Exact sums of floats are long numbers, in limbs of 32 bits, one a place (``limbs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from wcrdt.codec import index_from_wire, require
from wcrdt.column_memory import copied
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, bounds, magnitude
from wcrdt.lattices.counters import GCounter, PNCounter
from wcrdt.lattices.exact_sums.sums import Average, Sum
from wcrdt.lattices.keyed.int_index import IntIndex, with_room
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask, numbers_of_column
from wcrdt.lattices.keyed.packing import all_written, narrow, rows_from_bits, rows_written, widened
from wcrdt.lattices.tallies import Tallies

Amounts = dict[int, Ints]
"""By place: what is added to each row. A place that is not there gets nothing."""
_INT64_MAX = 2**63 - 1
_DENSE = 2
"""A table with rows for one of so many keys at least has a row for each."""


class Table:
    """The contribution of one actor: by place a column. ``index``: of each row its row of the map; None: the same."""

    __slots__ = ("columns", "index")

    def __init__(self, index: IntIndex | None = None) -> None:
        self.columns: dict[int, Ints] = {}
        self.index = index

    def positions(self, rows: Indices) -> Ints:
        """Where these rows of the map are in the columns; rows that are missing come in, with zeros."""
        if self.index is None:
            return rows
        found = self.index.find(rows)
        missing = found < 0
        if missing.any():
            self.index.add(rows[missing])
            found[missing] = np.arange(self.index.count - int(np.count_nonzero(missing)), self.index.count)
        return found

    def reserve(self, height: int) -> None:
        """Have room for the rows of a map of this height, in the columns that are there."""
        room = height if self.index is None else self.index.count
        self.columns = {place: with_room(column, room) for place, column in self.columns.items()}

    def read(self, place: int, positions: Indices) -> Ints:
        """The numbers of a place, 0 where it has none."""
        column = self.columns.get(place, _NOTHING)
        try:
            return column[positions]
        except IndexError:  # rows that came after the last number
            found, inside = np.zeros(len(positions), np.int64), positions < len(column)
            found[inside] = column[positions[inside]]
            return found

    def write(self, place: int, positions: Indices, numbers: Ints, height: int) -> None:
        height = height if self.index is None else self.index.count
        column = with_room(self.columns.get(place, _NOTHING), height)
        column[positions] = numbers
        self.columns[place] = column

    def at(self, place: int, rows: Indices) -> Ints:
        """The same for rows of the map."""
        if self.index is None:
            return self.read(place, rows)
        if len(rows) > self.index.count:  # few of them are there: all that are there cost less than a search for each
            spread = np.zeros(int(max(rows.max(), self.index.keys.max(initial=0))) + 1, np.int64)
            spread[self.index.keys] = self.read(place, np.arange(self.index.count))
            return spread[rows]
        found = self.index.find(rows)
        there = found >= 0
        return self.read(place, found) if there.all() else self.read(place, np.where(there, found, 0)) * there

    def rows(self, height: int) -> Ints:
        """The rows of the map that it has, of the first ones."""
        return np.arange(height) if self.index is None else self.index.keys

    def copy(self) -> Table:
        fresh = Table(None if self.index is None else self.index.copy())
        fresh.columns = {place: copied(column) for place, column in self.columns.items()}
        return fresh


_NOTHING = np.empty(0, np.int64)
_EMPTY = Table()


class TallyLeaf(Leaf):
    """Tables by actor. Rows of zeros are not part of the value."""

    __slots__ = ("_tables", "_width")

    inner: Tallies[Any, Any]

    def __init__(self, inner: AnyLattice) -> None:
        super().__init__(inner)
        self._width = self.inner.width
        self._tables: dict[int, Table] = {}

    def empty(self) -> Self:
        return type(self)(self.inner)

    def _table(self, actor: int, rows: int, height: int) -> Table:
        table = self._tables.get(actor)
        if table is None:
            table = self._tables[actor] = Table(None if rows * _DENSE >= height else IntIndex())
        return table

    # --- adding ---------------------------------------------------------------------------------------------------

    def fold(self, column: Any, groups: Groups) -> Amounts:
        numbers = numbers_of_column(column)
        if numbers.dtype.kind == "f":
            return self._fold_floats(numbers, groups)
        if magnitude(numbers) * len(numbers) > _INT64_MAX:
            raise Unfit
        return self._fold_ints(numbers, groups)

    def _fold_floats(self, numbers: Any, groups: Groups) -> Amounts:
        raise Unfit

    def _fold_ints(self, numbers: Ints, groups: Groups) -> Amounts:
        """Gains and losses, as places 0 and 1."""
        sums = groups.totals(numbers)
        if bounds(numbers)[0] >= 0:
            return {0: sums}
        gains = groups.totals(np.maximum(numbers, 0))
        return {0: gains, 1: gains - sums}

    def prepare(self, rows: Indices, folded: Amounts, actor: int, height: int) -> tuple[Any, Mask]:
        given = {place: amount for place, amount in folded.items() if np.count_nonzero(amount)}
        if not given:
            return [], np.zeros(len(rows), np.bool_)
        table = self._table(actor, len(rows), height)
        positions = table.positions(rows)
        table.reserve(height)
        after: Amounts = {}
        changed: Any = np.False_
        for place, amount in given.items():
            after[place] = table.read(place, positions) + amount
            if int(np.minimum.reduce(after[place])) < 0:
                raise Unfit  # beyond 64 bits
            changed = changed | (amount != 0)
        return [(table, positions, self._carried(table, positions, after), height)], changed

    def _carried(self, table: Table, positions: Indices, after: Amounts) -> Amounts:
        return after

    def commit(self, prepared: Any) -> None:
        for table, positions, after, height in prepared:
            for place, numbers in after.items():
                table.write(place, positions, numbers, height)

    # --- joining --------------------------------------------------------------------------------------------------

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Any, bool]:
        prepared: list[Any] = []
        for actor, theirs in other._tables.items():
            rows_there = theirs.rows(len(rows))
            mine = self._table(actor, len(rows_there), height)
            positions = mine.positions(rows if theirs.index is None else rows[rows_there])
            mine.reserve(height)
            before = {place: mine.read(place, positions) for place in theirs.columns}
            after = self._larger(mine, positions, before, {i: theirs.at(i, rows_there) for i in theirs.columns})
            after = {place: numbers for place, numbers in after.items() if (numbers != before[place]).any()}
            if after:
                prepared.append((mine, positions, after, height))
        return prepared, bool(prepared)

    def _larger(self, mine: Table, positions: Indices, before: Amounts, given: Amounts) -> Amounts:
        """The larger number of each place; ``before`` may get more places of ``mine``."""
        return {place: np.maximum(before[place], numbers) for place, numbers in given.items()}

    def leq(self, rows: Indices, other: Self) -> bool:
        for actor, mine in self._tables.items():
            rows_here = mine.rows(len(rows))
            theirs = other._tables.get(actor, _EMPTY)
            below = {place: mine.at(place, rows_here) for place in mine.columns}
            if not self._all_below(below, theirs, rows[rows_here]):
                return False
        return True

    def _all_below(self, numbers: Amounts, theirs: Table, rows: Indices) -> bool:
        return all(bool((column <= theirs.at(place, rows)).all()) for place, column in numbers.items())

    def of_one_actor(self, height: int) -> Self:
        if self._tables.keys() <= {0}:
            return self
        fresh = self.empty()
        fresh.commit(fresh.prepare_combine(np.arange(height), self, height))
        return fresh

    def prepare_combine(self, rows: Indices, other: Self, height: int) -> Any:
        return self.prepare(rows, other._together(len(rows)), 0, height)[0]

    def _together(self, height: int) -> Any:
        """The sums over all actors in the first rows, as ``fold`` gives those of groups."""
        totals = self._totals(np.arange(height)) if height else {}
        if any(column.dtype != np.int64 for column in totals.values()):
            raise Unfit
        return totals

    # --- parts and copies -----------------------------------------------------------------------------------------

    def own(self, rows: Indices, actor: int) -> Self:
        fresh = self.empty()
        if (table := self._tables.get(actor)) is not None:
            fresh._tables[actor] = made = Table()
            made.columns = {place: table.at(place, rows) for place in table.columns}
        return fresh

    def copy(self, rows: int) -> Self:
        fresh = self.empty()
        fresh._tables = {actor: table.copy() for actor, table in self._tables.items()}
        return fresh

    def spread(self, rows: Indices, height: int) -> Self:
        fresh = self.empty()
        for actor, table in self._tables.items():
            mine = table.rows(len(rows))
            made = fresh._table(actor, len(mine), height)
            positions = made.positions(rows[mine])
            for place in table.columns:
                made.write(place, positions, table.at(place, mine), height)
        return fresh

    # --- reading --------------------------------------------------------------------------------------------------

    def values(self, rows: Indices) -> list[Any]:
        return self._read(self._totals(rows), len(rows))

    def columns(self, rows: Indices) -> Any:
        totals = self._totals(rows)
        whole = all(place < 2 and column.dtype == np.int64 for place, column in totals.items())
        if not whole or type(self.inner) not in (GCounter, PNCounter, Sum):
            return self._read(totals, len(rows))
        return totals.get(0, np.zeros(len(rows), np.int64)) - totals.get(1, 0)

    def _totals(self, rows: Indices) -> dict[int, Any]:
        """By place the sum over all actors."""
        totals: dict[int, Any] = {}
        for table in self._tables.values():
            for place in table.columns:
                column = table.at(place, rows)
                if place not in totals:
                    totals[place] = column
                elif int(totals[place].max()) + int(column.max()) > _INT64_MAX:
                    totals[place] = totals[place].astype(object) + column
                else:
                    totals[place] = totals[place] + column
        return totals

    def _read(self, totals: dict[int, Any], count: int) -> list[Any]:
        numbers = [totals.get(place, np.zeros(count, np.int64)) for place in range(self._width)]
        kind = type(self.inner)
        if kind is GCounter:
            return numbers[0].tolist()
        if kind is PNCounter or kind is Sum:
            return (numbers[0] - numbers[1]).tolist()
        if kind is Average:
            sums, counts = (numbers[0] - numbers[1]).tolist(), numbers[2].tolist()
            return [Fraction(total, count) if count else None for total, count in zip(sums, counts, strict=True)]
        return list(zip(*(column.tolist() for column in numbers), strict=True))

    # --- wire -----------------------------------------------------------------------------------------------------

    def to_wire(self, rows: Indices) -> type_of_wire:
        wire: list[type_of_wire] = []
        for actor, table in sorted(self._tables.items()):
            found = ((place, table.at(place, rows)) for place in sorted(table.columns))
            columns = {place: column for place, column in found if np.count_nonzero(column)}
            if not columns:
                continue
            there = rows_written(columns, len(rows))
            packed = [[place, narrow(column if there is None else column[there])] for place, column in columns.items()]
            wire.append([actor, None if there is None else np.packbits(there).tobytes(), packed])
        return wire

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        fresh = self.empty()
        require(type(wire) is list, "tables were expected")
        entries: Any = wire
        for entry in entries:
            require(type(entry) is list and len(entry) == 3 and type(entry[2]) is list, "an actor's columns")
            bits: Any = entry[1]
            columns: Any = entry[2]
            actor = index_from_wire(entry[0])
            require(actor > max(fresh._tables, default=actor - 1), "actors must ascend")
            rows = rows_from_bits(bits, height)
            table = fresh._table(actor, len(rows), height)
            positions = table.positions(rows)
            given: Amounts = {}
            for place_column in columns:
                require(type(place_column) is list and len(place_column) == 2, "a place and its column")
                place, column = index_from_wire(place_column[0]), widened(place_column[1])
                require(len(column) == len(rows) and int(column.min()) >= 0, "a tally is negative, or missing")
                require(place > max(given, default=place - 1) and bool(column.any()), "places must ascend, none empty")
                given[place] = column
            require(bool(given) and all_written(given, len(rows)), "a row is empty")
            require(self._possible(given, len(rows)), "no elements give these tallies")
            for place, column in given.items():
                table.write(place, positions, column, height)
        return fresh

    def _possible(self, columns: Amounts, height: int) -> bool:
        """False for what no elements give, beyond numbers below zero."""
        return set(columns) <= set(range(self._width))

    # --- objects --------------------------------------------------------------------------------------------------

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        found: list[Any] = [self.inner.bottom() for _ in range(len(rows))]
        for actor, table in self._tables.items():
            columns = {place: table.at(place, rows) for place in table.columns}
            for each, row in zip(found, self._rows_of(columns, len(rows)), strict=True):
                if any(row):
                    each._rows[actor] = row
        return found

    def _rows_of(self, columns: Amounts, count: int) -> list[tuple[Any, ...]]:
        numbers = [columns[place].tolist() if place in columns else [0] * count for place in range(self._width)]
        return list(zip(*numbers, strict=True))

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        fresh, by_actor = self.empty(), dict[int, tuple[list[int], list[Any]]]()
        for number, each in enumerate(lattices):
            for actor, row in each._rows.items():
                rows, taken = by_actor.setdefault(actor, ([], []))
                rows.append(number)
                taken.append(row)
        for actor in sorted(by_actor):
            rows, taken = np.array(by_actor[actor][0], np.int64), by_actor[actor][1]
            table = fresh._table(actor, len(rows), len(lattices))
            positions = table.positions(rows)
            for place, column in self._columns_of(taken).items():
                table.write(place, positions, column, len(lattices))
        return fresh

    def _columns_of(self, rows: list[Any]) -> Amounts:
        found: Amounts = {}
        for place, column in enumerate(zip(*rows, strict=True)):
            if set(map(type, column)) != {int} or max(column) > _INT64_MAX:
                raise Unfit
            if any(column):
                found[place] = np.array(column, np.int64)
        return found

    @property
    def size_bytes(self) -> int:
        tables = self._tables.values()
        found = sum(column.nbytes for table in tables for column in table.columns.values())
        return found + sum(table.index.size_bytes for table in tables if table.index is not None)


class CountLeaf(TallyLeaf):
    """``GCounter``: what goes down is refused by its objects."""

    __slots__ = ()

    def _fold_ints(self, numbers: Ints, groups: Groups) -> Amounts:
        if bounds(numbers)[0] < 0:
            raise Unfit
        return {0: groups.totals(numbers)}


class AverageLeaf(TallyLeaf):
    """``Average`` of ints: their number is place 2."""

    __slots__ = ()

    def _fold_ints(self, numbers: Ints, groups: Groups) -> Amounts:
        return {**super()._fold_ints(numbers, groups), 2: groups.sizes()}


class HistogramLeaf(TallyLeaf):
    """``Histogram``: a place for each bucket."""

    __slots__ = ()

    def fold(self, column: Any, groups: Groups) -> Amounts:
        numbers, bounds = numbers_of_column(column), self.inner._vector  # type: ignore[attr-defined]
        if bounds is None or numbers.dtype != bounds.dtype or np.isnan(numbers).any():
            raise Unfit
        buckets = np.searchsorted(bounds, groups.arranged(numbers), side="left")
        members = np.repeat(np.arange(len(groups.starts)), groups.sizes())
        counts = np.bincount(members * self._width + buckets, minlength=len(groups.starts) * self._width)
        return dict(enumerate(counts.astype(np.int64, copy=False).reshape(-1, self._width).T))
