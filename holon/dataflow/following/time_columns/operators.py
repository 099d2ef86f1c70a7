"""Operators of times and durations as numbers: differences, shifts and comparisons. All else is Python's own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.times import Datetimes, are_floats
from holon.dataflow.following.column_functions import ColumnFunction
from holon.dataflow.following.time_columns.made import DAY, Durations, times_column
from holon.formats.batch import Column

Numbers = NDArray[np.int64]
_MICRO = timedelta(microseconds=1)
_FIRST_DAY, _LAST_DAY = (datetime.min - datetime(1970, 1, 1)).days, (datetime.max - datetime(1970, 1, 1)).days
_MOST = 2**61
"""Microseconds of which two add up within 64 bits."""


class Operation(NamedTuple):
    """The function of an operator for values of two types, and the type that it gives (None: not known)."""

    function: ColumnFunction
    gives: Any


def operation(name: str, left: Any, right: Any) -> Operation | None:
    """The operator for values of these types; None: it is no operator of times."""
    return _OPERATIONS.get((name, left, right))


class _OfTimes(ColumnFunction):
    def __init__(self, function: Callable[..., Any], numbers: Callable[[Any, Any], Column | None]) -> None:
        self._function = function
        self._numbers = numbers

    def __call__(self, *values: Any) -> Any:
        return self._function(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where both sides are such."""
        return None if all(fixed) else self._numbers(*given)


def _micros_of_times(*sides: Any) -> list[Any] | None:
    """Microseconds since 1970 UTC of both sides, or of their own clocks where neither has a zone."""
    found, are_local = [], []
    for side in sides:
        if type(side) is datetime:
            zone = side.utcoffset()
            clock = (side.replace(tzinfo=None) - datetime(1970, 1, 1)) // _MICRO
            found.append(np.int64(clock if zone is None else clock - zone // _MICRO))
            are_local.append(zone is None)
            continue
        times = side.datetimes() if isinstance(side, LazyColumn) else None
        micros = None if times is None else times.utc_micros()
        if times is None or micros is None:
            return None
        found.append(micros)
        are_local.append(times.are_local)
    return found if len(set(are_local)) == 1 else None


def _micros_of_durations(*sides: Any) -> list[Any] | None:
    found = []
    for side in sides:
        if type(side) is timedelta:
            side = Durations(np.array([side // _MICRO])) if abs(side // _MICRO) < _MOST else None
            found.append(None if side is None else side.micros[0])
        else:
            found.append(side.micros if isinstance(side, Durations) else None)
    return None if any(one is None for one in found) else found


def _difference(left: Any, right: Any) -> Column | None:
    micros = _micros_of_times(left, right)
    return None if micros is None else Durations(micros[0] - micros[1])


def _shift(sign: int) -> Callable[[Any, Any], Column | None]:
    def shifted(times: Any, durations: Any) -> Column | None:
        own = times.datetimes() if isinstance(times, LazyColumn) else None
        micros = _micros_of_durations(durations)
        if own is None or micros is None:
            return None
        clock, zones = own.numbers()
        found = clock + sign * micros[0]
        days = found // DAY
        if int(days.min()) < _FIRST_DAY or int(days.max()) > _LAST_DAY:
            return None
        return times_column(Datetimes(found, zones))

    return shifted


def _compared(function: Callable[..., Any], numbers: Callable[..., list[Any] | None]) -> _OfTimes:
    def compared(left: Any, right: Any) -> Column | None:
        micros = numbers(left, right)
        return None if micros is None else function(*micros)

    return _OfTimes(function, compared)


def _quotient(left: Any, right: Any) -> Column | None:
    micros = _micros_of_durations(left, right)
    if micros is None or bool(np.any(micros[1] == 0)):
        return None
    return micros[0] / micros[1] if all(map(are_floats, micros)) else None


def _whole_quotient(left: Any, right: Any) -> Column | None:
    micros = _micros_of_durations(left, right)
    return None if micros is None or bool(np.any(micros[1] == 0)) else micros[0] // micros[1]


_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_OPERATIONS: dict[tuple[str, Any, Any], Operation] = {
    ("-", datetime, datetime): Operation(_OfTimes(operator.sub, _difference), timedelta),
    ("-", datetime, timedelta): Operation(_OfTimes(operator.sub, _shift(-1)), datetime),
    ("+", datetime, timedelta): Operation(_OfTimes(operator.add, _shift(1)), datetime),
    ("+", timedelta, datetime): Operation(_OfTimes(operator.add, lambda left, right: _shift(1)(right, left)), datetime),
    ("/", timedelta, timedelta): Operation(_OfTimes(operator.truediv, _quotient), None),
    ("//", timedelta, timedelta): Operation(_OfTimes(operator.floordiv, _whole_quotient), None),
}
for _name, _word in _COMPARISONS.items():
    _function = getattr(operator, _word)
    _OPERATIONS[_name, datetime, datetime] = Operation(_compared(_function, _micros_of_times), None)
    _OPERATIONS[_name, timedelta, timedelta] = Operation(_compared(_function, _micros_of_durations), None)
