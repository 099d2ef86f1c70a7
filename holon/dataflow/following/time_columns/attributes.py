"""Times as expressions: ``datetime.fromisoformat`` of a column of texts, and the members of what it gives.

Of columns that the compiled loops have read these are numbers. All others are Python's own calls, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from operator import attrgetter, methodcaller
from typing import Any

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.times import datetimes_of
from holon.dataflow.following.column_functions import ColumnFunction, as_list
from holon.dataflow.following.stand_ins import NotAValue
from holon.dataflow.following.time_columns.made import DAY, SECOND, Durations, MadeTimes, of_each_unit
from holon.formats.batch import Column


class FromIso(ColumnFunction):
    """``datetime.fromisoformat``."""

    def __call__(self, *values: Any) -> Any:
        return datetime.fromisoformat(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where the loop reads all texts."""
        (texts,) = given
        found = datetimes_of(texts) if isinstance(texts, Texts) else None
        if found is not None and not len(found[1]):
            return MadeTimes(texts, datetime.fromisoformat, found[0])
        return list(map(datetime.fromisoformat, as_list(texts)))


class Attribute(ColumnFunction):
    """An attribute of each value; ``part``: by which unit and number of these a clock gives it."""

    def __init__(self, name: str, part: tuple[int, int | None] | None) -> None:
        self._of = attrgetter(name)
        self._part = part

    def __call__(self, *values: Any) -> Any:
        return self._of(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where the column has those of its times."""
        (column,) = given
        if isinstance(column, Durations) and self._part is not None:
            return column.clock(*self._part)
        if isinstance(column, LazyColumn):
            found = column.datetimes()
            if found is not None and self._part is not None and self._part[1] is not None:
                return found.clock(self._part[0], self._part[1])
            of_days = of_each_unit(self._of, column, DAY) if self._part is None else None
            if of_days is not None:
                return of_days
        return list(map(self._of, as_list(column)))


class Method(ColumnFunction):
    """A method of each value; the last arguments are its ``named`` ones."""

    def __init__(self, name: str, named: Sequence[str] = ()) -> None:
        self._name = name
        self._named = named
        self.key = (name, *named)

    def __call__(self, *values: Any) -> Any:
        own, *given = values
        return self._with(given)(own)

    def _with(self, given: Sequence[Any]) -> Callable[[Any], Any]:
        at = len(given) - len(self._named)
        return methodcaller(self._name, *given[:at], **dict(zip(self._named, given[at:], strict=True)))

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where the column has those of its times."""
        own, *others = given
        if fixed[0] or not all(fixed[1:]):
            return None
        found = None
        if isinstance(own, LazyColumn):
            found = self._of_times(own, others)
        elif isinstance(own, Durations) and not others and self._name == "total_seconds":
            found = own.seconds()
        return list(map(self._with(others), as_list(own))) if found is None else found

    def _of_times(self, own: LazyColumn, others: Sequence[Any]) -> Column | None:
        times = own.datetimes()
        if times is None:
            return None
        if self._name == "timestamp" and not others:
            return times.timestamps()
        unit = self._unit(others)
        return None if unit is None else of_each_unit(self._with(others), own, unit)

    def _unit(self, others: Sequence[Any]) -> int | None:
        """Microseconds within which the method gives one value; None: it may differ for each."""
        if self._name in ("date", "isoweekday", "toordinal", "weekday") and not others:
            return DAY
        if self._name == "isoformat" and others and type(others[-1]) is str:
            return _UNITS_OF_ISO.get(others[-1])
        if self._name != "strftime" or len(others) != 1 or type(others[0]) is not str or "%f" in others[0]:
            return None
        fields = set(others[0].split("%")[1:]) if "%%" not in others[0] else {""}
        letters = {field[:1] for field in fields}
        return next((unit for unit, known in _UNITS_OF_FIELDS if letters <= known), SECOND)


_DATES = frozenset("YmdjaAbByuwGVUW")
_UNITS_OF_FIELDS = ((DAY, _DATES), (3600 * SECOND, _DATES | set("HIpzZ")), (60 * SECOND, _DATES | set("HIpzZMR")))
"""Microseconds within which ``strftime`` gives one text, by its fields."""
_UNITS_OF_ISO = {"hours": 3600 * SECOND, "minutes": 60 * SECOND, "seconds": SECOND}
FROM_ISO = FromIso()
_CLOCK = {
    "hour": (3600 * SECOND, 24),
    "minute": (60 * SECOND, 60),
    "second": (SECOND, 60),
    "microsecond": (1, SECOND),
}
_OF_DURATION = {"days": (DAY, None), "seconds": (SECOND, 86_400), "microseconds": (1, SECOND)}
ATTRIBUTES: Mapping[Any, Sequence[str]] = {
    date: ("day", "month", "year"),
    datetime: ("day", "month", "year", *_CLOCK),
    timedelta: tuple(_OF_DURATION),
}
"""Attributes of a type that are ints."""
_OF_DAYS: Mapping[str, Any] = {
    "isoformat": str,
    "isoweekday": None,
    "strftime": str,
    "toordinal": None,
    "weekday": None,
}
METHODS: Mapping[Any, Mapping[str, Any]] = {
    date: _OF_DAYS,
    datetime: {**_OF_DAYS, "astimezone": datetime, "date": date, "replace": datetime, "timestamp": None},
    timedelta: {"total_seconds": None},
}
"""Methods of a type, with the types of texts and times that they give."""
_PARTS = {
    **{name: Attribute(name, _CLOCK.get(name)) for name in ATTRIBUTES[datetime]},
    **{name: Attribute(name, part) for name, part in _OF_DURATION.items()},
}


def attribute(name: str) -> Attribute:
    """The function that gives an attribute."""
    return _PARTS[name]


class TimeMethod(NotAValue):
    """A method of a date or time, which gives a value of this type."""

    def __init__(self, owner: Any, name: str, gives: Any) -> None:
        self._owner = owner
        self._name = name
        self._gives = gives

    def __call__(self, *given: Any, **named: Any) -> Any:
        function = Method(self._name, tuple(named))
        return self._owner._holon_apply(f".{self._name}", function, *given, *named.values(), type=self._gives)
