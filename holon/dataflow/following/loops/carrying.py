"""Names that turns of a loop hand on (``total += item.price``): turn by turn, for all rows at once.

Rows whose names have values of other types go apart, so that ints stay ints and columns stay arrays. Of few rows each
goes by itself, so that a long list of one row costs about what Python takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.dataflow.expressions import (
    Apply,
    Branch,
    Constant,
    Decision,
    Expression,
    Field,
    Fields,
    Indices,
    Leaf,
    decided,
    evaluate,
    joined,
    leaf_column,
    rows_of,
)
from holon.dataflow.following.column_functions import ColumnFunction, Parting, RowsFunction, as_list, packed
from holon.dataflow.following.loops.gathered import Gathered, Path
from holon.dataflow.following.loops.loop import CarriedOf, Carries, Computed, Effects, Loop, WayRaises
from holon.errors import USER_ERRORS
from holon.formats.batch import Column

FEW = 16
"""Rows up to which each goes by itself."""


class Carried(NamedTuple):
    """By name: the value ``before`` the turn of each item, and the one of each row ``behind`` its last turn.

    ``exits``: the way by which a turn of each row leaves the loop, -1: none does; ``places``: of that item among all.
    Items behind it have any value, as have such rows behind the loop.
    """

    before: Sequence[Column]
    behind: tuple[Column, ...]
    exits: Places
    places: Places


Places = NDArray[np.int64]


class _Group(NamedTuple):
    """Rows whose names have values of the same types."""

    rows: Indices
    values: Sequence[Column]


class _Turn(Gathered):
    """One item of each of some rows, with what its turn finds."""

    def __init__(self, items: Fields, places: Indices, depth: int, values: Sequence[Column]) -> None:
        super().__init__(items, places)
        self._depth, self._values = depth, values

    def field(self, path: Path) -> Column:
        """The column of a field, or of a name that is handed on."""
        own = path and isinstance(path[0], CarriedOf) and path[0].depth == self._depth
        return self._values[path[0].number] if own else super().field(path)  # type: ignore[attr-defined]


def carried_through(loop: Loop, items: Fields, rows: Fields, offsets: NDArray[np.int64]) -> Carried:
    """The values of names before each turn and behind the last one. Raises what a turn raises."""
    exits, left_at = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    lengths = np.diff(offsets)
    groups = [_Group(np.arange(len(rows)), [evaluate(one, rows) for one in loop.carried])]
    before: list[_Group] = []
    behind: list[_Group] = []
    single = _Single(loop, items, exits, left_at)
    turn = 0
    while groups:
        further: list[_Group] = []
        for group in groups:
            goes_on = lengths[group.rows] > turn
            behind.append(_some(group, np.flatnonzero(~goes_on)))
            left = _some(group, np.flatnonzero(goes_on))
            if len(left.rows) > FEW:
                places = offsets[left.rows] + turn
                before.append(_Group(places, left.values))
                for found, leaf, taken in decided(loop.body, _Turn(items, places, loop.item.depth, left.values)):
                    values = _left_by(leaf, taken) if len(found) else None
                    if values is not None:
                        further.append(_Group(left.rows[found], values))
                    elif len(found):
                        exits[left.rows[found]], left_at[left.rows[found]] = leaf.exit, places[found]  # type: ignore[union-attr]
            elif len(left.rows):
                single.take(left, offsets, turn)
        groups, turn = _in_common(further), turn + 1
    names = range(len(loop.carried))
    return Carried(
        [_column([*before, *single.before], name, len(items)) for name in names],
        tuple(_column([*behind, *single.behind], name, len(rows)) for name in names),
        exits,
        left_at,
    )


def _some(group: _Group, places: Indices) -> _Group:
    return _Group(group.rows[places], [rows_of(one, places) for one in group.values])


def _column(groups: Sequence[_Group], name: int, rows: int) -> Column:
    parts = [(group.rows, group.values[name]) for group in groups if len(group.rows)]
    if not parts:
        return []
    found = np.concatenate([index for index, _ in parts])
    if len(found) == rows:
        return joined(parts, rows)
    ends = np.cumsum([len(index) for index, _ in parts])
    places = np.split(np.arange(len(found)), ends[:-1])
    number = np.zeros(rows, np.intp)  # others have any value
    number[found] = np.arange(len(found))
    return rows_of(joined(list(zip(places, [column for _, column in parts], strict=True)), len(found)), number)


def _left_by(leaf: Leaf, taken: Fields) -> list[Column] | None:
    """The values that a way of a turn leaves in names; None: it leaves the loop."""
    carries = _evaluated(leaf, lambda one: evaluate(one, taken))
    return None if carries is None else [leaf_column(one, taken) for one in carries.values]


def _evaluated(leaf: Leaf, of: Callable[[Expression], Any]) -> Carries | None:
    """The values that a way leaves in names, None: it leaves the loop.

    Those that it computes and does not use are computed, since they may fail.
    """
    assert isinstance(leaf, Effects)
    if leaf.raises:
        raise WayRaises
    for note in leaf.notes:
        if isinstance(note, Computed):
            for one in note.expressions:
                of(one)
    return None if leaf.exit is not None else next((one for one in leaf.notes if isinstance(one, Carries)), _NOTHING)


_NOTHING = Carries(())


def _in_common(groups: Sequence[_Group]) -> list[_Group]:
    """Groups whose values are of the same types as one."""
    by_type: dict[Any, list[_Group]] = {}
    for group in groups:
        by_type.setdefault(tuple(map(_type_of, group.values)), []).append(group)
    return [each[0] if len(each) == 1 else _as_one(each) for each in by_type.values()]


def _as_one(groups: Sequence[_Group]) -> _Group:
    ends = np.cumsum([len(group.rows) for group in groups])
    places = np.split(np.arange(ends[-1]), ends[:-1])
    each = zip(*(group.values for group in groups), strict=True)
    values = [joined(list(zip(places, columns, strict=True)), int(ends[-1])) for columns in each]
    return _Group(np.concatenate([group.rows for group in groups]), values)


def _type_of(column: Column) -> Any:
    return column.dtype if isinstance(column, np.ndarray) else Texts if isinstance(column, Texts) else list


class _Single:
    """Rows that go by themselves: their expressions are evaluated by value."""

    def __init__(self, loop: Loop, items: Fields, exits: Places, left_at: Places) -> None:
        self._loop, self._items, self._exits, self._left_at = loop, items, exits, left_at
        self._has_inner_exits = _parts(loop.body)
        self._fields: dict[Path, list[Any] | None] = {}  # None: some item lacks it
        self.before: list[_Group] = []
        self.behind: list[_Group] = []

    def take(self, group: _Group, offsets: NDArray[np.int64], turn: int) -> None:
        """Take all turns of the rows from ``turn`` on."""
        rows, places, before, behind = group.rows.tolist(), [], [], []
        for row, *values in zip(rows, *map(as_list, group.values), strict=True):
            for place in range(int(offsets[row]) + turn, int(offsets[row + 1])):
                places.append(place)
                before.append(values)
                found = self._after(self._loop.body, place, values)
                if type(found) is int:
                    self._exits[row], self._left_at[row] = found, place
                    break
                values = found
            behind.append(values)
        self.before.append(_group(places, before))
        self.behind.append(_group(rows, behind))

    def _after(self, body: Decision, place: int, values: list[Any]) -> Any:
        """The values that a turn leaves in names, or the way by which it leaves the loop."""
        if self._has_inner_exits:
            return self._after_by_columns(place, values)
        known: dict[Expression, Any] = {}

        def value(one: Expression) -> Any:
            if one not in known:
                known[one] = self._value(one, place, values, value)
            return known[one]

        while isinstance(body, Branch):
            body = body.then if value(body.condition) else body.otherwise
        carries = _evaluated(body, value)
        return body.exit if carries is None else [value(one.result) for one in carries.values]  # type: ignore[union-attr, arg-type]

    def _after_by_columns(self, place: int, values: list[Any]) -> Any:
        columns = [packed([each]) for each in values]
        ((_, leaf, taken),) = decided(
            self._loop.body, _Turn(self._items, np.array([place]), self._loop.item.depth, columns)
        )
        found = _left_by(leaf, taken)
        return leaf.exit if found is None else [as_list(one)[0] for one in found]  # type: ignore[union-attr]

    def _value(self, one: Expression, place: int, values: list[Any], value: Callable[[Expression], Any]) -> Any:
        if isinstance(one, Constant):
            return one.value
        if isinstance(one, Field):
            if isinstance(one.path[0], CarriedOf) and one.path[0].depth == self._loop.item.depth:
                return values[one.path[0].number]
            return self._field(one.path, place)
        if isinstance(one.function, RowsFunction):
            columns = [packed([each]) for each in values]
            return as_list(evaluate(one, _Turn(self._items, np.array([place]), self._loop.item.depth, columns)))[0]
        return one.function(*map(value, one.arguments))

    def _field(self, path: Path, place: int) -> Any:
        """A field at one item, since others may lack it."""
        if path not in self._fields:
            try:
                self._fields[path] = as_list(self._items.field(path))
            except USER_ERRORS:
                self._fields[path] = None
        column = self._fields[path]
        return as_list(self._items.take(np.array([place])).field(path))[0] if column is None else column[place]


def _parts(body: Decision) -> bool:
    """Whether rows have more fields behind a condition of the turn."""
    if isinstance(body, Leaf):
        return False
    is_one = isinstance(body.condition, Apply) and isinstance(body.condition.function, Parting)
    return is_one or _parts(body.then) or _parts(body.otherwise)


def _group(rows: list[int], values: list[list[Any]]) -> _Group:
    columns = [packed(list(each)) for each in zip(*values, strict=True)] if values else []
    return _Group(np.array(rows, np.intp), columns)


class PartOf(ColumnFunction):
    """One name of all that a loop has handed on."""

    is_total = True

    def __init__(self, number: int) -> None:
        self._number = number
        self.key = (number,)

    def __call__(self, *values: Any) -> Any:
        return values[0][self._number]

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Its column."""
        return given[0][self._number] if isinstance(given[0], tuple) else None
