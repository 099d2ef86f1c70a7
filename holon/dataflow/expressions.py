"""Expressions over the fields of a row, evaluated by columns: the values that Python gives row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.dataflow.arithmetic import applied, number_of, quick_of, truth
from holon.dataflow.dict_rows import objects_of
from holon.dataflow.following.column_functions import Parting, RowsFunction, as_list
from holon.errors import USER_ERRORS
from holon.formats.batch import Column, take_columns

Indices = NDArray[np.intp]


class Fields(Protocol):
    """Rows by columns; ``known``: those of expressions that were evaluated for them.

    ``column_at``: the column of a field, or of one of the items of a list, if it takes no objects. ``names_within``:
    the names of such columns, without the path of the field.
    """

    known: dict[Expression, Column]

    def __len__(self) -> int: ...
    def field(self, path: tuple[str, ...]) -> Column: ...
    def take(self, index: Indices) -> Self: ...
    def column_at(self, path: tuple[str, ...]) -> Column | None: ...
    def names_within(self, path: tuple[str, ...]) -> Sequence[str]: ...


class SelectableFields(Fields, Protocol):
    """Rows whose fields need not be gathered at once."""

    def selected(self, path: tuple[str, ...]) -> Column: ...


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of the row; the row itself where the path is empty."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path) or "row"


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """One value for all rows."""

    value: Any

    def __str__(self) -> str:
        return f"{self.value!r:.60}"


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A function of columns: an operator, or a method of what the first one holds."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expression, ...]
    fixed: tuple[bool, ...] = field(init=False)
    """Which arguments are constants."""
    numbers: tuple[Any, ...] = field(init=False)
    """These as NumPy has them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed", tuple(isinstance(one, Constant) for one in self.arguments))
        numbers = (number_of(one.value) if isinstance(one, Constant) else None for one in self.arguments)
        object.__setattr__(self, "numbers", tuple(numbers))

    def __str__(self) -> str:
        shown = [str(argument) for argument in self.arguments]
        return f"({f' {self.name} '.join(shown)})" if len(shown) == 2 else f"{self.name}({', '.join(shown)})"


Expression = Field | Constant | Apply
_EXPRESSIONS = (Field, Constant, Apply)


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """``then`` for the rows of which the condition is true, ``otherwise`` for the others.

    ``before``: what Python computes first, so a row that fails there raises that.
    """

    condition: Expression
    then: Decision
    otherwise: Decision
    before: tuple[Apply, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One result: an expression, a tuple of results, or a Struct's fields by name.

    ``types``: those of a tuple's parts, where they are known; ``type``: that of an expression's values.
    """

    result: Expression | Sequence[Leaf] | Mapping[str, Leaf]
    struct: type | None = None
    types: tuple[Any, ...] = ()
    type: Any = None


Decision = Branch | Leaf


def evaluate(expression: Expression, rows: Fields) -> Column:
    """The column of an expression: an array, texts or a list. Raises what Python raises for the first such row."""
    if isinstance(expression, Apply):
        column = rows.known.get(expression)
        if column is None:
            column = rows.known[expression] = _applied(expression, rows)
        return column
    if isinstance(expression, Constant):
        return constant(expression.value, len(rows))
    found = rows.field(expression.path)
    if type(found) is np.ndarray:  # asking for an abstract class would cost more than all the rest
        return found
    present = found.present() if isinstance(found, LazyColumn) else None
    return found if present is None else present


def _applied(expression: Apply, rows: Fields) -> Column:
    if isinstance(expression.function, RowsFunction):
        return expression.function.of_rows(rows)
    given = [
        number if same else evaluate(one, rows)
        for one, same, number in zip(expression.arguments, expression.fixed, expression.numbers, strict=True)
    ]
    quick = quick_of(expression.function)
    found = None if quick is None or not len(rows) else quick(*given)
    if found is not None:
        return found
    values = [one.value if isinstance(one, Constant) else column
              for one, column in zip(expression.arguments, given, strict=True)]  # fmt: skip
    return applied(expression.function, values, expression.fixed, len(rows))


def constant(value: Any, rows: int) -> Column:
    """The same value in each row."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return np.full(rows, value, np.int64)
    if type(value) in (float, bool):
        return np.full(rows, value)
    if type(value) is str:
        one = Texts.of([value])
        return one.take(np.zeros(rows, np.intp))
    return [value] * rows


def decided(decision: Decision, rows: Fields) -> list[tuple[Indices, Leaf, Fields]]:
    """The rows that end at each leaf, with their place among all; no row is in two of them."""
    if isinstance(decision, Leaf):
        return [(np.arange(len(rows)), decision, rows)]
    for one in decision.before:
        if isinstance(one.function, RowsFunction):  # once for all ways
            evaluate(one, rows)
    try:
        chosen = truth(evaluate(decision.condition, rows))
    except USER_ERRORS:
        for one in decision.before:
            evaluate(one, rows)
        raise
    count = int(np.count_nonzero(chosen))
    if not len(rows):
        return []
    function = decision.condition.function if isinstance(decision.condition, Apply) else None
    parting = function if isinstance(function, Parting) else None
    if not count or (count == len(rows) and parting is None):
        return decided(decision.then if count else decision.otherwise, rows)
    found = []
    for branch, index in ((decision.then, np.flatnonzero(chosen)), (decision.otherwise, np.flatnonzero(~chosen))):
        if parting is not None and branch is decision.then:
            taken = parting.those(rows, index)
        elif len(index):
            taken = rows.take(index)
            taken.known = KnownAbove(rows.known, index)
        else:
            continue
        below = decided(branch, taken)
        found += [(index[places], leaf, taken) for places, leaf, taken in below]
    return found


class KnownAbove(dict[Expression, Column]):
    """Columns of some rows, beside those of all rows: of these the rows are gathered when they are asked for."""

    __slots__ = ("_above", "_index")

    def __init__(self, above: Mapping[Expression, Column], index: Indices) -> None:
        super().__init__()
        self._above, self._index = above, index

    def get(self, expression: Expression) -> Column | None:  # type: ignore[override]
        """The column for these rows; None where it is not known."""
        found = super().get(expression)
        if found is None:
            above = self._above.get(expression)
            if above is not None:
                found = self[expression] = rows_of(above, self._index)
        return found


def rows_of(column: Column, index: Indices) -> Column:
    """Some rows of a column, or of a tuple of columns."""
    if type(column) is np.ndarray:
        return column[index]
    if isinstance(column, tuple):
        return tuple(rows_of(part, index) for part in column)
    return take_columns({"": column}, index)[""]


def column_of(decision: Decision, rows: Fields) -> Column:
    """The column of results that are no Structs."""
    if isinstance(decision, Leaf):
        return leaf_column(decision, rows)
    found = decided(decision, rows)
    if len(found) == 1:
        return leaf_column(found[0][1], found[0][2])
    return joined([(index, leaf_column(leaf, taken)) for index, leaf, taken in found], len(rows))


def leaf_column(leaf: Leaf, rows: Fields) -> Column:
    """The results of one leaf; a tuple becomes a tuple of columns."""
    if isinstance(leaf.result, _EXPRESSIONS):
        return evaluate(leaf.result, rows)
    if isinstance(leaf.result, Mapping):
        assert leaf.struct is not None
        return objects_of(leaf.struct, [as_list(leaf_column(one, rows)) for one in leaf.result.values()])
    return tuple(leaf_column(one, rows) for one in leaf.result)


def selected_column(leaf: Leaf, rows: SelectableFields) -> Column:
    """As ``leaf_column``; fields behind the first part of a tuple are gathered where they are used."""
    if not isinstance(leaf.result, tuple) or len(leaf.result) < 2:
        return leaf_column(leaf, rows)
    first, *others = leaf.result
    return (leaf_column(first, rows), *(_selected(one, rows) for one in others))


def _selected(leaf: Leaf, rows: SelectableFields) -> Column:
    if isinstance(leaf.result, Field):
        return rows.selected(leaf.result.path)
    if isinstance(leaf.result, tuple):
        return tuple(_selected(one, rows) for one in leaf.result)
    return leaf_column(leaf, rows)


def in_order(parts: Sequence[Indices]) -> tuple[Indices, list[Indices]]:
    """The rows of several parts, ascending, and for each part the places of its rows among all.

    Of two parts with one row the first comes first.
    """
    index = np.concatenate(parts)
    order = np.argsort(index, kind="stable")
    to = np.empty_like(order)
    to[order] = np.arange(len(order))
    return index[order], np.split(to, np.cumsum([len(part) for part in parts])[:-1])


def joined(parts: Sequence[tuple[Indices, Column]], rows: int) -> Column:
    """Columns of some rows each, as one; numbers of two kinds stay as they are, in a list."""
    columns = [column for _, column in parts]
    kinds = {column.dtype if isinstance(column, np.ndarray) else None for column in columns}
    if len(kinds) == 1 and None not in kinds:
        found = np.empty(rows, columns[0].dtype)
        for index, column in parts:
            found[index] = column
        return found
    if columns and all(isinstance(column, Texts) for column in columns):
        texts, starts, ends = Texts.joined(columns), np.empty(rows, np.int64), np.empty(rows, np.int64)  # type: ignore[arg-type]
        index = np.concatenate([index for index, _ in parts])
        starts[index], ends[index] = texts.starts, texts.ends
        return Texts(texts.buffer, starts, ends, are_unicode=all(column.are_unicode for column in columns))
    listed: list[Any] = [None] * rows
    for index, column in parts:
        for place, value in zip(index.tolist(), as_list(column), strict=True):
            listed[place] = value
    return listed
