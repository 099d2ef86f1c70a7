"""Rows at which a function behind a window fails: where the target takes them, the others go on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from holon.dataflow.errors import FollowedWrongly
from holon.dataflow.rows import Rows
from holon.errors import USER_ERRORS, HolonError

T = TypeVar("T")


class TakesFailing(Protocol):
    """Takes single rows at which a function of a step fails, if ``takes_failing``."""

    @property
    def takes_failing(self) -> bool: ...
    def fail(self, step: Any, row: Rows, error: BaseException) -> None: ...


def without_failing(step: Any, rows: Rows, target: TakesFailing, work: Callable[[Rows], T]) -> T | None:
    """The result of ``work`` for the rows at which it does not fail; None: there are none.

    ``work`` has no effect but its result, or none where it fails. It is called again for each row once it has failed.
    A misuse of Holon is no row's failure.
    """
    try:
        return work(rows)
    except USER_ERRORS as error:
        if not target.takes_failing or isinstance(error, HolonError):
            raise
    sound = []
    for place in range(len(rows)):
        row = rows.take(np.array([place]))
        error = failure_of(work, row)
        if error is None:
            sound.append(place)
        else:
            target.fail(step, row, error)
    return work(rows.take(np.array(sound))) if sound else None


def each_without_failing(step: Any, rows: Rows, target: TakesFailing, work: Callable[[Any], object]) -> None:
    """Call ``work`` with the object of each row; where it fails it has no effect."""
    for place, value in enumerate(rows.objects()):
        if not target.takes_failing:
            work(value)
        elif (error := failure_of(work, value)) is not None:
            _set_aside(step, rows, place, error, target)


def in_order_without_failing(step: Any, rows: Rows, values: Sequence[Any], target: TakesFailing) -> list[int]:
    """The places of the rows by their values, the largest first; equal ones keep their order.

    A row fails whose value does not compare with that of the first row. All do where the others do not compare.
    """
    places = range(len(values))
    try:
        return _largest_first(values, places)
    except USER_ERRORS as error:
        if not target.takes_failing or isinstance(error, HolonError):
            raise
    compared = []
    for place in places:
        error = failure_of(lambda value: value < values[0], values[place])
        if error is None:
            compared.append(place)
        else:
            _set_aside(step, rows, place, error, target)
    try:
        return _largest_first(values, compared)
    except USER_ERRORS as error:
        for place in compared:
            _set_aside(step, rows, place, error, target)
    return []


def called_itself(function: Callable[[Any], T], row: Rows, error: BaseException) -> T:
    """The result of a function for the one row at which it fails by columns. Raises what it raises itself.

    ``error``: of the columns. Where the function gives a result, it was not followed rightly; then Python is right.
    """
    if isinstance(error, HolonError):
        raise error
    value = function(row.objects()[0])
    name, file = getattr(function, "__qualname__", ""), getattr(getattr(function, "__code__", None), "co_filename", "")
    text = f"{name} ({file}) raised {error!r} by columns, and gives a result where it is called: that was taken"
    warnings.warn(f"{text}. This is an error of Holon; please report the function", FollowedWrongly, stacklevel=2)
    return value


def _set_aside(step: Any, rows: Rows, place: int, error: BaseException, target: TakesFailing) -> None:
    target.fail(step, rows.take(np.array([place])), error)


def _largest_first(values: Sequence[Any], places: Sequence[int]) -> list[int]:
    return sorted(places, key=values.__getitem__, reverse=True)


def failure_of(work: Callable[[Any], object], given: Any) -> BaseException | None:
    """The exception of ``work``; no handler of it is active any more, so later ones do not chain to it."""
    try:
        work(given)
    except USER_ERRORS as error:
        if isinstance(error, HolonError):
            raise
        return error
    return None
