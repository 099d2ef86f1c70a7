"""Times as expressions: ``datetime.fromisoformat`` of a column of texts, and the members of what it gives.

Of columns that the compiled loops have read these are numbers. All others are Python's own calls, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from operator import attrgetter, methodcaller
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.kinds import PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.times import Datetimes, datetimes_of
from holon.dataflow.following.column_functions import ColumnFunction, as_list
from holon.formats.batch import Column


class IsoTimes(LazyColumn):
    """Times of texts, as numbers. Objects are made by Python of the texts, which is quicker."""

    __slots__ = ("_texts",)

    def __init__(self, texts: Texts, times: Datetimes) -> None:
        super().__init__(times, np.full(len(texts), PRESENT))
        self._texts, self._values = texts, times

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        assert isinstance(self._values, Datetimes)
        return type(self)(self._texts.take(index), self._values.take(index))

    def _made(self) -> list[Any]:
        return list(map(datetime.fromisoformat, self._texts.tolist()))


class FromIso(ColumnFunction):
    """``datetime.fromisoformat``."""

    def __call__(self, *values: Any) -> Any:
        return datetime.fromisoformat(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where the loop reads all texts."""
        (texts,) = given
        found = datetimes_of(texts) if isinstance(texts, Texts) else None
        if found is not None and not len(found[1]):
            return IsoTimes(texts, found[0])
        return list(map(datetime.fromisoformat, as_list(texts)))


class Attribute(ColumnFunction):
    """An attribute of each value; ``part``: by which unit and number of these a clock gives it."""

    def __init__(self, name: str, part: tuple[int, int] | None) -> None:
        self._of = attrgetter(name)
        self._part = part

    def __call__(self, *values: Any) -> Any:
        return self._of(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where the column has those of its times."""
        found = given[0].datetimes() if isinstance(given[0], LazyColumn) else None
        if found is not None and self._part is not None:
            return found.clock(*self._part)
        return list(map(self._of, as_list(given[0])))


class Method(ColumnFunction):
    """A method of each value; the last arguments are its ``named`` ones."""

    def __init__(self, name: str, named: Sequence[str] = ()) -> None:
        self._name = name
        self._named = named

    def __call__(self, *values: Any) -> Any:
        own, *given = values
        return self._with(given)(own)

    def _with(self, given: Sequence[Any]) -> Callable[[Any], Any]:
        at = len(given) - len(self._named)
        return methodcaller(self._name, *given[:at], **dict(zip(self._named, given[at:], strict=True)))

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers, where the column has those of its times."""
        own, *others = given
        if self._name == "timestamp" and not others and isinstance(own, LazyColumn):
            found = own.datetimes()
            seconds = None if found is None else found.timestamps()
            if seconds is not None:
                return seconds
        return list(map(self._with(others), as_list(own))) if all(fixed[1:]) and not fixed[0] else None


FROM_ISO = FromIso()
_SECOND = 1_000_000
_CLOCK = {
    "hour": (3600 * _SECOND, 24),
    "minute": (60 * _SECOND, 60),
    "second": (_SECOND, 60),
    "microsecond": (1, _SECOND),
}
ATTRIBUTES: Mapping[Any, Sequence[str]] = {date: ("day", "month", "year"), datetime: ("day", "month", "year", *_CLOCK)}
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
}
"""Methods of a type, with the types of texts and times that they give."""
_PARTS = {name: Attribute(name, _CLOCK.get(name)) for name in ATTRIBUTES[datetime]}


def attribute(name: str) -> Attribute:
    """The function that gives an attribute."""
    return _PARTS[name]
