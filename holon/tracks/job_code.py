"""Which track runs the job's code now: a watchdog reads it from another thread. One thread runs all tracks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Calling")


class FunctionCall(NamedTuple):
    """Where the job's code is being called: ``offset`` is where a replay would start, ``at`` is the text of it."""

    partition: int
    offset: int
    at: str


class Calling(Protocol):
    """A track. Another thread may read it."""

    def function_call(self) -> FunctionCall:
        """Its position."""
        ...

    def record_offset(self) -> int:
        """The record in hand; -1: a batch, or a window."""
        ...


class JobCode:
    """``track``: the one that runs the job's code now; None: Holon's own runs."""

    __slots__ = ("track",)

    def __init__(self) -> None:
        self.track: Calling | None = None


JOB_CODE: Final = JobCode()


def runs_job_code(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """A track's method that calls functions of the job."""

    @wraps(method)
    def run(track: T, /, *arguments: P.args, **named: P.kwargs) -> R:
        JOB_CODE.track = track
        try:
            return method(track, *arguments, **named)
        finally:
            JOB_CODE.track = None

    return run
