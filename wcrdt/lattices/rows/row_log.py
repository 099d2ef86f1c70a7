"""``RowLog``: rows of a fixed width as they came, kept as columns, such as one side of a join within a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt.codec import DecodeError, element_from_wire, element_to_wire, index_from_wire, require
from wcrdt.column_memory import kept
from wcrdt.elements import Element, plain
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import height, number_column, rows_of
from wcrdt.lattices.keyed.packing import narrow, widened

Column = NDArray[np.int64] | NDArray[np.float64] | list[Element]
"""An array where all elements are ints of 64 bits, or all floats; else the elements."""

_LARGEST_PLACE = 2**62


class RowColumns(tuple[Column, ...]):
    """Columns of one length; equal if all their elements are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowColumns) and list(map(_to_wire, self)) == list(map(_to_wire, other))

    __hash__ = None  # type: ignore[assignment]


class Segment(NamedTuple):
    """Consecutive rows of one actor: the place of the first one, and their columns, which are never changed."""

    start: int
    columns: tuple[Column, ...]

    @property
    def end(self) -> int:
        """The place behind the last row."""
        return self.start + len(self.columns[0])

    def part(self, start: int, end: int) -> Segment:
        """The rows of some places, to be joined with those beside them, which decide the form of each column."""
        rows = slice(start - self.start, end - self.start)
        return Segment(start, tuple(column[rows] for column in self.columns))


class RowLog(Lattice[tuple[Element, ...], RowColumns]):
    """Rows of ``width`` elements (1 or more), in the order of their insertion by each actor; the value is columns.

    An actor's row has its place in the actor's sequence, and the join is the union of places. A delta has the new ones.
    """

    __slots__ = ("_segments", "width")
    tag: ClassVar[str] = "row-log"
    hands_over = True

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"a row has 1 element or more, got a width of {width}")
        self.width = width
        self._segments: dict[int, list[Segment]] = {}  # by actor: ascending, apart or adjacent, none empty

    def bottom(self) -> Self:
        return type(self)(self.width)

    def shape(self) -> type_of_wire:
        return self.width

    def check(self, element: tuple[Element, ...]) -> None:
        if not isinstance(element, tuple) or len(element) != self.width:
            raise TypeError(f"a row is a tuple of {self.width}, got {element!r:.100}")
        plain(element)

    def check_many(self, elements: Any) -> None:
        self._columns(elements)

    def insert(self, element: tuple[Element, ...], *, actor: int = 0) -> Self:
        return self.insert_many([element], actor=actor)

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        columns, delta = self._columns(elements), self.bottom()
        if len(columns[0]):
            mine = self._segments.setdefault(actor, [])
            segment = Segment(mine[-1].end if mine else 0, columns)
            mine.append(segment)
            delta._segments[actor] = [segment]
        return delta

    def _columns(self, elements: Any) -> tuple[Column, ...]:
        """Columns of its own. Raises as ``check`` does."""
        if not isinstance(elements, tuple):
            rows = rows_of(elements)
            for row in rows:
                self.check(row)
            elements = tuple([row[place] for row in rows] for place in range(self.width))
        if len(elements) != self.width:
            raise TypeError(f"a row has {self.width} elements, got columns of {len(elements)}")
        height(elements)
        return tuple(map(_own_column, elements))

    def merge(self, other: Self) -> bool:
        changed = False
        for actor in sorted(other._segments):
            mine, theirs = self._segments.get(actor), other._segments[actor]
            if mine is None:
                self._segments[actor] = list(theirs)
                changed = True
            elif theirs[0].start >= mine[-1].end:
                mine += theirs
                changed = True
            else:
                missing = [part for segment in theirs for part in _without(segment, mine)]
                self._segments[actor] = sorted(mine + missing, key=_start)
                changed |= bool(missing)
        return changed

    def leq(self, other: Self) -> bool:
        return not any(
            next(_without(segment, other._segments.get(actor, [])), None)
            for actor, mine in self._segments.items()
            for segment in mine
        )

    def _joined(self, actor: int) -> list[Segment]:
        """The actor's segments, adjacent ones made one: the same for equal values."""
        runs: list[list[Segment]] = []
        for segment in self._segments[actor]:
            if runs and runs[-1][-1].end == segment.start:
                runs[-1].append(segment)
            else:
                runs.append([segment])
        found = self._segments[actor] = [run[0] if len(run) == 1 else _together(run) for run in runs]
        return found

    @property
    def value(self) -> RowColumns:
        pieces = [segment.columns for actor in sorted(self._segments) for segment in self._joined(actor)]
        if not pieces:
            return RowColumns(np.empty(0, np.int64) for _ in range(self.width))
        if len(pieces) == 1:
            return RowColumns(map(_as_read, pieces[0]))
        return RowColumns(map(_concatenated, zip(*pieces, strict=True)))

    def to_wire(self) -> type_of_wire:
        return [
            [actor, segment.start, *map(_to_wire, segment.columns)]
            for actor in sorted(self._segments)
            for segment in self._joined(actor)
        ]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        require(type(wire) is list, "a list of segments was expected")
        last = -1
        for written in wire:
            require(type(written) is list and len(written) == self.width + 2, "a segment has a column for each element")
            actor, start = map(index_from_wire, written[:2])
            columns = tuple(_held(_from_wire(column)) for column in written[2:])
            rows = len(columns[0])
            mine = fresh._segments.setdefault(actor, [])
            least = mine[-1].end + 1 if mine else 0  # adjacent ones would be one
            require(actor >= last and (actor == last) == bool(mine), "actors must ascend")
            require(least <= start < _LARGEST_PLACE, "places must ascend")
            require(rows > 0 and all(len(column) == rows for column in columns), "columns must be equally long")
            mine.append(Segment(start, columns))
            last = actor
        return fresh


def _start(segment: Segment) -> int:
    return segment.start


def _without(segment: Segment, others: list[Segment]) -> Iterator[Segment]:
    """The parts of a segment that no other covers."""
    start, stop = segment.start, segment.end
    for other in others:
        if other.start >= stop:
            break
        if start < other.start:
            yield segment.part(start, other.start)
        start = max(start, other.end)
    if start < stop:
        yield segment.part(start, stop)


def _together(run: list[Segment]) -> Segment:
    """Adjacent segments as one."""
    columns = zip(*(segment.columns for segment in run), strict=True)
    return Segment(run[0].start, tuple(_held(_concatenated(parts)) for parts in columns))


def _concatenated(parts: tuple[Column, ...]) -> Column:
    """A new column of all rows."""
    first = parts[0]
    if isinstance(first, np.ndarray) and all(isinstance(p, np.ndarray) and p.dtype == first.dtype for p in parts):
        return np.concatenate(parts)
    return [one for part in parts for one in rows_of(part)]


def _held(column: Column) -> Column:
    """The column for longer: where long columns lie."""
    return kept(column) if isinstance(column, np.ndarray) else column


def _as_read(column: Column) -> Column:
    """The column without a copy where nobody can write it."""
    if isinstance(column, list):
        return list(column)
    seen = column.view()
    seen.flags.writeable = False
    return seen


def _own_column(given: Any) -> Column:
    """A column in the one form for its elements, which nobody else writes. Raises as ``plain`` does."""
    numbers = number_column(given)
    if numbers is not None and len(numbers):
        return _held(numbers.copy() if numbers is given else numbers)
    return _in_one_form(list(map(plain, rows_of(given))))


def _in_one_form(column: Column) -> Column:
    """An array where all elements are ints of 64 bits, or all floats."""
    if isinstance(column, np.ndarray):
        return column
    kinds = set(map(type, column))
    try:
        return np.array(column, np.int64) if kinds == {int} else np.array(column) if kinds == {float} else column
    except OverflowError:
        return column


def _to_wire(column: Column) -> type_of_wire:
    """Ints as a packed column, floats as bytes, other elements one by one, in a list around them."""
    if isinstance(column, list):
        return [list(map(element_to_wire, column))]
    return column.astype("<f8").tobytes() if column.dtype.kind == "f" else narrow(column.astype(np.int64, copy=False))


def _from_wire(wire: type_of_wire) -> Column:
    if type(wire) is bytes:
        floats = np.frombuffer(wire, "<f8").astype(np.float64)
        require(not np.isnan(floats).any(), "a float is a NaN")
        require(not (np.signbit(floats) & (floats == 0)).any(), "a float is minus zero")
        return floats
    require(type(wire) is list, "a column was expected")
    if len(wire) != 1:
        return _widened(wire)
    require(type(wire[0]) is list, "a list of elements was expected")
    column = list(map(element_from_wire, wire[0]))
    require(_in_one_form(column) is column, "a column of numbers is packed")
    return column


def _widened(wire: type_of_wire) -> NDArray[np.int64]:
    try:
        return widened(wire)
    except (TypeError, ValueError) as error:
        raise DecodeError(str(error)) from error
