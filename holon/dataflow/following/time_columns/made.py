"""Times that are made of other columns, and durations: numbers, of which objects are made on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.kinds import PRESENT
from holon.columnar.structs.lazy import LazyColumn, ObjectColumn
from holon.columnar.structs.times import Datetimes, are_floats
from holon.dataflow.following.column_functions import ColumnFunction, Same, as_list, spread
from holon.formats.batch import Column

Numbers = NDArray[np.int64]
SECOND = 1_000_000
DAY = 86_400 * SECOND
_FARTHEST_S = 6e10
"""Seconds from 1970 to both sides of which all are of years that a datetime has."""


class MadeTimes(LazyColumn):
    """Times as numbers. Objects are made by ``of`` of another column, which is quicker than of numbers."""

    __slots__ = ("_of", "_source")

    def __init__(self, source: Column, of: Callable[[Any], datetime], times: Datetimes) -> None:
        super().__init__(times, np.full(len(times), PRESENT))
        self._source, self._of, self._values = source, of, times

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        assert isinstance(self._values, Datetimes)
        source = self._source[index] if isinstance(self._source, np.ndarray) else self._source.take(index)
        return type(self)(source, self._of, self._values.take(index))

    def _made(self) -> list[Any]:
        return list(map(self._of, as_list(self._source)))


def times_column(times: Datetimes) -> LazyColumn:
    """A column of these times."""
    return LazyColumn(times, np.full(len(times), PRESENT))


class Durations(ObjectColumn):
    """Durations as microseconds."""

    __slots__ = ("micros",)

    def __init__(self, micros: Numbers) -> None:
        super().__init__()
        self.micros = micros

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self.micros[index])

    def seconds(self) -> NDArray[np.float64] | None:
        """``total_seconds()`` of each; None where floats are too coarse for a division by them."""
        return self.micros / SECOND if are_floats(self.micros) else None

    def clock(self, unit: int, most: int | None) -> Numbers:
        """How many units of so many microseconds, from 0 to below ``most``; None: there is no end."""
        return self.micros // unit if most is None else self.micros // unit % most

    def _made(self) -> list[Any]:
        return [timedelta(microseconds=micros) for micros in self.micros.tolist()]

    def _row(self, row: int) -> Any:
        return timedelta(microseconds=int(self.micros[row]))

    def __len__(self) -> int:
        return len(self.micros)


class FromTimestamp(ColumnFunction):
    """``datetime.fromtimestamp`` with a zone, or with that of the process (None)."""

    def __init__(self, zone: Any) -> None:
        self._zone = zone
        self.key = (Same(zone),)

    def __call__(self, *values: Any) -> Any:
        (seconds,) = values
        return datetime.fromtimestamp(seconds, self._zone)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where it is UTC: ints as they are, of floats the nearest microsecond, ties to even."""
        (seconds,) = given
        if self._zone is not UTC or not isinstance(seconds, np.ndarray) or seconds.dtype.kind not in "if":
            return None
        if not bool((np.abs(seconds) < _FARTHEST_S).all()) or (seconds.dtype.kind == "i" and _has_least(seconds)):
            return None
        if seconds.dtype.kind == "i":
            micros = seconds * SECOND
        else:
            parts, whole = np.modf(seconds)
            micros = whole.astype(np.int64) * SECOND + np.rint(parts * SECOND).astype(np.int64)
        return MadeTimes(seconds, self, Datetimes(micros, np.zeros(rows, np.int64)))


def _has_least(ints: Numbers) -> bool:
    """Whether the int is there of which the absolute value wraps."""
    return bool((ints == np.iinfo(np.int64).min).any())


def of_each_unit(function: Callable[[Any], Any], column: LazyColumn, unit: int) -> Column | None:
    """A function of times that is one value within a unit (microseconds of their clocks): called once for each.

    None where that saves little, or zones differ.
    """
    times = column.datetimes()
    found = None if times is None else times.numbered_units(unit)
    if found is None:
        return None
    firsts, numbers = found
    return spread(list(map(function, column.take(firsts).tolist())), numbers)
