"""Loops that a turn leaves (``break``, ``return``): how the loop ends for each row, and the rows that such a turn has.

The code behind the leaving instruction is a way of the row, which has the fields of that turn's item, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.expressions import Decision, Expression, Fields, Indices, Leaf, decided, evaluate, rows_of
from holon.dataflow.following.column_functions import Parting, RowsFunction
from holon.dataflow.following.loops.gathered import Gathered, Path
from holon.dataflow.following.loops.items import Items
from holon.dataflow.following.loops.loop import CarriedOf, Computed, Effects, ItemOf, Loop, PlaceOf, WayRaises
from holon.dataflow.following.loops.sources import places_within
from holon.errors import USER_ERRORS
from holon.formats.batch import Column

Places = NDArray[np.int64]
Ways = Sequence[tuple[Indices, Leaf, Fields]]


FIRST_TURNS = 16
"""Turns of each row that are taken at once at first, where none knows of another; then twice as many each time."""


class Ends(RowsFunction):
    """How a loop ends for each row."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.key = (loop,)

    def of_rows(self, rows: Fields) -> Column:
        """Raises what a turn raises, up to the one that leaves the loop."""
        items = Items(self._loop, rows, may_be_ragged=True)
        exits, places = self._found(items, len(rows))
        items.check_ends(np.flatnonzero(exits < 0))
        return Endings(items, np.arange(len(rows)), exits, places)  # type: ignore[return-value]

    def _found(self, items: Items, rows: int) -> tuple[Places, Places]:
        if not self._loop.carried:
            try:
                return _by_many_turns(self._loop.body, items, rows)
            except WayRaises:
                raise
            except USER_ERRORS:
                pass  # Python may leave the loop before the item that fails
        through = items.carried()
        return through.exits, through.places


def _by_many_turns(body: Decision, items: Items, rows: int) -> tuple[Places, Places]:
    """As of ``Endings``. Raises what any turn raises; ``WayRaises`` where one may that Python comes to."""
    exits, left_at = np.full(rows, -1), np.zeros(rows, np.int64)
    begins, ends = items.offsets[:-1].copy(), items.offsets[1:]
    left, number = np.flatnonzero(begins < ends), FIRST_TURNS
    while len(left):
        lengths = np.minimum(ends[left] - begins[left], number)
        places = np.repeat(begins[left], lengths) + places_within(lengths)
        row_of = np.repeat(left, lengths)
        ways = decided(body, items if len(places) == len(items) else items.take(places))
        first = _first_exits(ways, places, row_of, len(items), rows)
        for found, leaf, taken in ways:
            reached = np.flatnonzero(places[found] <= first[row_of[found]])
            if len(reached):
                _check(leaf, taken, reached)
                if leaf.exit is not None:  # type: ignore[union-attr]
                    exits[row_of[found[reached]]], left_at[row_of[found[reached]]] = leaf.exit, places[found[reached]]  # type: ignore[union-attr]
        begins[left] += lengths
        left, number = left[(exits[left] < 0) & (begins[left] < ends[left])], number * 2
    return exits, left_at


def _first_exits(ways: Ways, places: Indices, row_of: Indices, end: int, rows: int) -> Places:
    """Of each row the place of the first item whose turn leaves the loop."""
    first = np.full(rows, end)
    for found, leaf, _ in ways:
        if leaf.exit is not None:  # type: ignore[union-attr]
            np.minimum.at(first, row_of[found], places[found])
    return first


def _check(leaf: Leaf, taken: Fields, reached: Indices) -> None:
    """Compute values that turns do not use, since they may fail."""
    assert isinstance(leaf, Effects)
    if leaf.raises:
        raise WayRaises
    unused = [one for note in leaf.notes if isinstance(note, Computed) for one in note.expressions]
    if unused:
        some = taken if len(reached) == len(taken) else taken.take(reached)
        for one in unused:
            evaluate(one, some)


class Endings(ObjectColumn):
    """``exits``: by which way each row's turn leaves the loop, -1: none does. ``places``: of that item among ``items``.

    ``rows``: their places among the rows of the items.
    """

    __slots__ = ("_items", "_places", "_rows", "exits")

    def __init__(self, items: Items, rows: Indices, exits: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        super().__init__()
        self._items, self._rows, self.exits, self._places = items, rows, exits, places

    def take(self, index: Any) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._items, self._rows[index], self.exits[index], self._places[index])

    def left(self, rows: Fields, index: Indices) -> Fields:
        """Some of the rows, with the fields of the item whose turn leaves the loop."""
        return _LeftRows(self._items, self._places[index], rows, index)

    def kept(self) -> tuple[Fields, Indices]:
        """The items of turns that do not leave the loop, and the row of each."""
        begins = self._items.offsets[self._rows]
        ends = np.where(self.exits < 0, self._items.offsets[self._rows + 1], self._places)
        lengths = ends - begins
        index = np.repeat(np.arange(len(self)), lengths)
        if int(lengths.sum()) == len(self._items) and bool((np.diff(self._rows) > 0).all()):
            return self._items, index
        return self._items.take(np.repeat(begins, lengths) + places_within(lengths)), index

    def behind(self) -> tuple[Column, ...]:
        """The values that the last turn leaves in names; of rows that no turn leaves."""
        return tuple(rows_of(one, self._rows) for one in self._items.carried().behind)

    def _made(self) -> list[Any]:
        return list(zip(self.exits.tolist(), self._places.tolist(), strict=True))

    def _row(self, row: int) -> Any:
        return self._made()[row]

    def __len__(self) -> int:
        return len(self._rows)


class LeftBy(Parting):
    """Whether a turn leaves the loop by one of the ways."""

    def __init__(self, loop: Loop, number: int) -> None:
        self._loop, self._number = loop, number
        self.key = (loop, number)

    def of_rows(self, rows: Fields) -> Column:
        """Raises what a turn raises."""
        return endings_of(self._loop, rows).exits == self._number

    def those(self, rows: Fields, index: Indices) -> Fields:
        """With the fields of the item whose turn leaves the loop, and of loops within that turn that were left."""
        found = endings_of(self._loop, rows).left(rows, index)
        for one in self._loop.exits[self._number]:
            found = one.those(found, np.arange(len(index)))
        return found


def endings_of(loop: Loop, rows: Fields) -> Endings:
    """How a loop that a turn may leave ends."""
    assert loop.ends is not None
    found = evaluate(loop.ends, rows)
    assert isinstance(found, Endings)
    return found


def turns_of(loop: Loop, rows: Fields) -> tuple[Fields, Indices]:
    """The items of all turns that do not leave the loop, and the row of each."""
    if loop.exits:
        return endings_of(loop, rows).kept()
    items = Items(loop, rows)
    return items, items.index


class _LeftRows(Gathered):
    """Rows of which a turn leaves a loop: ``places`` of its items, ``index`` of the rows."""

    def __init__(self, items: Items, places: Indices, rows: Fields, index: Indices) -> None:
        super().__init__(rows, index)
        self._of_items = Gathered(items, places)
        self._items, self._places = items, places
        self.known: dict[Expression, Column] = _KnownOfBoth(self.known, items, places)

    def _is_own(self, path: Path) -> bool:
        return bool(path) and isinstance(path[0], ItemOf | PlaceOf | CarriedOf) and path[0].depth == self._items.depth

    def field(self, path: Path) -> Column:
        """The column of a field, of the rows or of the items."""
        return self._of_items.field(path) if self._is_own(path) else super().field(path)

    def column_at(self, path: Path) -> Column | None:
        """As ``field``, if it takes no objects."""
        return self._of_items.column_at(path) if self._is_own(path) else super().column_at(path)

    def names_within(self, path: Path) -> Sequence[str]:
        """The names of columns within a field."""
        return self._of_items.names_within(path) if self._is_own(path) else super().names_within(path)


class _KnownOfBoth(dict[Expression, Column]):
    """Columns that are known of the rows, and of the items."""

    __slots__ = ("_items", "_places", "_rows")

    def __init__(self, rows: dict[Expression, Column], items: Items, places: Indices) -> None:
        super().__init__()
        self._rows, self._items, self._places = rows, items, places

    def get(self, expression: Expression) -> Column | None:  # type: ignore[override]
        """The column for these rows; None where it is not known."""
        found = super().get(expression)
        if found is None:
            found = self._rows.get(expression)
        if found is None:
            of_items = dict.get(self._items.known, expression)
            found = None if of_items is None else rows_of(of_items, self._places)
        if found is not None:
            self[expression] = found
        return found
