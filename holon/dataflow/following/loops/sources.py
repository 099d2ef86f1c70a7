"""Sources of loops, as columns: the items of lists, and of what ``zip``, ``reversed`` and ``range`` make of those."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.columns import Lists
from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.expressions import Apply, Expression, Field, Fields, Indices, evaluate, rows_of
from holon.dataflow.following.column_functions import ColumnFunction, as_list, packed
from holon.dataflow.following.loops.gathered import Path
from holon.dataflow.rows import part_of
from holon.formats.batch import Column

MOST_OF_A_ROW = 1000
"""Ints of a range; the function is called for rows with more, since Python makes none before it is asked for."""
_MOST_NUMBERS = 1 << 22
"""Ints of all ranges of a run; where it has more, its parts are taken one by one."""
_FAR = 1 << 61


class Source(Protocol):
    """The items of all rows, one behind the other. ``rest``: the path of a field within an item."""

    lengths: NDArray[np.int64]
    """How many items each row has."""

    def check_ends(self, rows: Indices | None = None) -> None:
        """Raise what Python raises behind the last item of the first row whose lists of a strict zip differ.

        ``rows``: those that come so far; None: all.
        """
        ...

    def of_items(self, rest: Path) -> Column:
        """The column of a field of the items."""
        ...

    def has_columns_at(self, rest: Path) -> bool:
        """Whether that takes no objects."""
        ...

    def names_within(self, rest: Path) -> Sequence[str]:
        """The names of columns within a field of the items."""
        ...


def source_of(iterable: Expression, rows: Fields) -> Source:
    """The items of an expression. Raises what Python raises for a value that is no list."""
    if isinstance(iterable, Apply) and isinstance(iterable.function, Zipped):
        return _Zip([source_of(one, rows) for one in iterable.arguments], iterable.function.is_strict)
    if isinstance(iterable, Apply) and isinstance(iterable.function, Reversed):
        return _reversed(source_of(iterable.arguments[0], rows))
    return _Items(iterable, rows)


class _Items:
    """The items of a column of lists."""

    def __init__(self, iterable: Expression, rows: Fields) -> None:
        self._iterable, self._rows = iterable, rows
        self._own: dict[Path, Column] = {}
        self.lengths = self._lengths()

    def check_ends(self, rows: Indices | None = None) -> None:
        """Other rows are refused before."""

    def _columns_at(self, rest: Path) -> Lists | None:
        """The lists of a field of the items."""
        if not isinstance(self._iterable, Field):
            return None
        found = self._rows.column_at((*self._iterable.path, *rest))
        return found if isinstance(found, Lists) else None

    def has_columns_at(self, rest: Path) -> bool:
        lists = self._columns_at(rest)
        return lists is not None and lists.lengths() is not None

    def names_within(self, rest: Path) -> Sequence[str]:
        return self._rows.names_within((*self._iterable.path, *rest)) if isinstance(self._iterable, Field) else ()

    def _lengths(self) -> NDArray[np.int64]:
        if isinstance(self._iterable, Field):
            for name in self._rows.names_within(self._iterable.path):
                found = self._columns_at(tuple(name.split(".")))
                lengths = None if found is None else found.lengths()
                if lengths is not None:
                    return lengths
        items, offsets = flat(evaluate(self._iterable, self._rows))
        self._own[()] = items
        return np.diff(offsets)

    def of_items(self, rest: Path) -> Column:
        if rest in self._own:
            return self._own[rest]
        lists = self._columns_at(rest)
        if lists is not None and lists.lengths() is not None:
            made = lists.flat()[0]
        elif rest:
            made = part_of(as_list(self.of_items(rest[:-1])), rest[-1])
        else:
            made = flat(evaluate(self._iterable, self._rows))[0]
        self._own[rest] = made
        return made


class _Arranged:
    """Some items of another source, or these in another order. ``places``: of each among all items of that."""

    def __init__(self, source: Source, lengths: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        self._source, self.lengths, self._places = source, lengths, places

    def check_ends(self, rows: Indices | None = None) -> None:
        self._source.check_ends(rows)

    def of_items(self, rest: Path) -> Column:
        return rows_of(self._source.of_items(rest), self._places)

    def has_columns_at(self, rest: Path) -> bool:
        return self._source.has_columns_at(rest)

    def names_within(self, rest: Path) -> Sequence[str]:
        return self._source.names_within(rest)


class PartOfZip(str):
    """A part of a path: the item of one of the lists that go along each other."""

    __slots__ = ("number",)
    number: int

    @classmethod
    def at(cls, number: int) -> PartOfZip:
        """``number`` counts the lists."""
        made = cls(f" part {number}")
        made.number = number
        return made


class _Zip:
    """The items of several sources, up to the end of the shortest. Fields of an item begin with its number."""

    def __init__(self, sources: Sequence[Source], is_strict: bool) -> None:
        self.lengths = np.minimum.reduce([one.lengths for one in sources])
        self._all = [one.lengths for one in sources] if is_strict else []
        self._sources = [_first_of(one, self.lengths) for one in sources]

    def check_ends(self, rows: Indices | None = None) -> None:
        none = np.zeros(len(self.lengths), np.bool_)
        differing = np.flatnonzero(sum((one != self.lengths for one in self._all), none))
        for row in (differing if rows is None else differing[np.isin(differing, rows)])[:1].tolist():
            list(zip(*(range(int(one[row])) for one in self._all), strict=True))

    def of_items(self, rest: Path) -> Column:
        return self._of(rest).of_items(rest[1:])

    def has_columns_at(self, rest: Path) -> bool:
        return self._of(rest).has_columns_at(rest[1:])

    def names_within(self, rest: Path) -> Sequence[str]:
        return self._of(rest).names_within(rest[1:])

    def _of(self, rest: Path) -> Source:
        assert isinstance(rest[0], PartOfZip), "a followed function has its items one by one"
        return self._sources[rest[0].number]


def places_within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each item among those of its row."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def _first_of(source: Source, lengths: NDArray[np.int64]) -> Source:
    if np.array_equal(source.lengths, lengths):
        return source
    begins = np.cumsum(source.lengths) - source.lengths
    return _Arranged(source, lengths, np.repeat(begins, lengths) + places_within(lengths))


def _reversed(source: Source) -> Source:
    lasts = np.cumsum(source.lengths) - 1
    return _Arranged(source, source.lengths, np.repeat(lasts, source.lengths) - places_within(source.lengths))


class Zipped(ColumnFunction):
    """``zip`` of what a row has. Loops read its arguments; for their values it gives the list."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self.key = (is_strict,)

    def __call__(self, *values: Any) -> Any:
        return list(zip(*values, strict=self.is_strict))

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """None."""


class Reversed(ColumnFunction):
    """``reversed`` of a list of a row."""

    key = ()

    def __call__(self, *values: Any) -> Any:
        return list(reversed(values[0]))

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """None."""


class Range(ColumnFunction):
    """``range`` of ints of a row, as lists."""

    key = ()

    def __call__(self, *values: Any) -> Any:
        return list(range(*values))

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Columns of ints give their ranges as two columns of ints."""
        ints = [np.broadcast_to(np.asarray(one), rows) if same else one for one, same in zip(given, fixed, strict=True)]
        if any(not isinstance(one, np.ndarray) or one.dtype != np.int64 or _is_far(one) for one in ints):
            return None
        begins, ends = (np.zeros(rows, np.int64), ints[0]) if len(ints) == 1 else ints[:2]
        steps = ints[2] if len(ints) > 2 else np.ones(rows, np.int64)
        if not steps.all():
            raise ValueError("range() arg 3 must not be zero")
        lengths = np.maximum(-((begins - ends) // steps), 0)
        number = int(lengths.sum(dtype=np.float64))
        if number > _MOST_NUMBERS and rows > 1:
            raise OverflowError(f"{number} ints of ranges are too many for a run")
        return Ranges(begins, lengths, steps)


class FewInts(ColumnFunction):
    """Whether a ``range`` of ints of a row has so few that all of them are made."""

    key = ()

    def __call__(self, *values: Any) -> Any:
        try:
            return len(range(*values)) <= MOST_OF_A_ROW
        except OverflowError:  # of more than 64 bits
            return False

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """None: they are few against what follows."""
        return None


def _is_far(ints: NDArray[np.int64]) -> bool:
    return len(ints) > 0 and bool(ints.min() < -_FAR or ints.max() > _FAR)


class Ranges(ObjectColumn):
    """Lists of ints that lie evenly."""

    __slots__ = ("_begins", "_lengths", "_steps")

    def __init__(self, begins: NDArray[np.int64], lengths: NDArray[np.int64], steps: NDArray[np.int64]) -> None:
        super().__init__()
        self._begins, self._lengths, self._steps = begins, lengths, steps

    def flat(self) -> tuple[Column, NDArray[np.int64]]:
        """All ints as one array, and offsets, as of ``Lists``."""
        each = np.repeat(self._begins, self._lengths), np.repeat(self._steps, self._lengths)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._lengths)])
        return each[0] + each[1] * places_within(self._lengths), offsets

    def lengths(self) -> NDArray[np.int64]:
        """How many ints each row has."""
        return self._lengths

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._begins[index], self._lengths[index], self._steps[index])

    def _made(self) -> list[Any]:
        return list(map(self._row, range(len(self))))

    def _row(self, row: int) -> Any:
        begin, step = int(self._begins[row]), int(self._steps[row])
        return list(range(begin, begin + step * int(self._lengths[row]), step))

    def __len__(self) -> int:
        return len(self._begins)


def flat(column: Any) -> tuple[Column, NDArray[np.int64]]:
    """The items of all lists as one column, and offsets, as of ``Lists``. Raises for what is no list."""
    quick = getattr(column, "flat", None)
    if quick is not None and column.lengths() is not None:
        return quick()
    rows = as_list(column)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    items = list(chain.from_iterable(rows))
    return packed(items) if items else [], np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
