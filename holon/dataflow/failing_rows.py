"""Rows at which a function behind a window fails: where the target takes them, the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

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
        try:
            work(row)
        except USER_ERRORS as error:
            if isinstance(error, HolonError):
                raise
            target.fail(step, row, error)
        else:
            sound.append(place)
    return work(rows.take(np.array(sound))) if sound else None


def each_without_failing(step: Any, rows: Rows, target: TakesFailing, work: Callable[[Rows], object]) -> None:
    """Call ``work`` for each row by itself; where it fails it has no effect."""
    for place in range(len(rows)):
        row = rows.take(np.array([place]))
        try:
            work(row)
        except USER_ERRORS as error:
            if not target.takes_failing or isinstance(error, HolonError):
                raise
            target.fail(step, row, error)
