"""Errors of a pipeline, found while it is built: they name the step and the line where it was written."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from holon.errors import JobError


class FlowError(JobError):
    """A step of a pipeline contradicts what comes before it, or cannot be run."""


def not_callable(name: str, given: object) -> str:
    """The text for a value in place of a function of a row."""
    field = given if isinstance(given, str) and given.isidentifier() else "price"
    return f"give a function of a row, as {name}{'=' * bool(name)}lambda row: row.{field}, not {given!r:.100}"


class NoSuchField(FlowError, AttributeError):
    """A function uses a field that its rows do not have; a pattern of ``match`` with it does not match."""


class NoSuchVerb(FlowError, AttributeError):
    """A verb of another kind of stream; the text says what has to come first."""


class LacksAttribute(AttributeError):
    """Rows of one way through a function lack an attribute, as ``None`` does, or one Struct of several."""


class Place(NamedTuple):
    """Where a step was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


def caller() -> Place:
    """The nearest line of code outside of this package that is being run."""
    frame = inspect.currentframe()
    package = __name__.rpartition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
    return Place("?", 0) if frame is None else Place(frame.f_code.co_filename, frame.f_lineno)


class FollowedWrongly(RuntimeWarning):
    """A function failed by columns for a row for which it does not fail itself; its own result was taken."""
