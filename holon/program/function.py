"""Processing functions (Holon, section 3.2): one per job, composed of states, handlers and nested functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from holon.errors import JobError
from holon.formats.batch import Batch
from holon.program.context import Context
from holon.program.states import StateDeclaration

E = TypeVar("E")
F = TypeVar("F", bound=Callable[..., Any])


class ProcessingFunction(Generic[E]):
    """Base class of processing functions over events of type ``E``.

    Declare states as class attributes, override ``process`` (one call a record) or ``process_batch`` (columns), and
    mark continuations with ``on_window``. An instance serves one partition; everything that it has to remember is
    declared state, plain attributes are constants (assigning one while the job runs raises).
    """

    def process(self, event: E, ctx: Context, /) -> Any:
        """Handle one event. May be ``async`` and await completed windows."""
        raise NotImplementedError

    def process_batch(self, batch: Batch[E], ctx: Context, /) -> None:
        """Handle a run of events as columns. Where the run was cut means nothing: rows are what count."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: Any) -> None:
        if "_handles" in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}.{name} was assigned while the job runs; it would be lost at the next "
                f"failure: declare it as Local (or assign to Local.value)"
            )
        super().__setattr__(name, value)


@dataclass(slots=True, frozen=True)
class Functions:
    """The partition's own bound functions; exactly one of ``record`` and ``batch``."""

    record: Callable[..., Any] | None
    batch: Callable[..., Any] | None
    is_async: bool


HandlerScope = Literal["partition", "global"]
"""Where a handler of a window runs: on every partition, or on the one that is responsible for the window."""


class WindowMark(NamedTuple):
    """A handler's wish, left on the function by ``on_window``."""

    state: StateDeclaration
    scope: HandlerScope


def on_window(state: Any, *, scope: HandlerScope = "partition") -> Callable[[F], F]:
    """Run the method when a window of ``state`` is complete: the checkpointable continuation (Holon, section 3.3).

    It is called as ``handler(self, window, ctx)``, window after window in the order of their ends, and once for each
    partition. With the scope "global" it is called only on the partition that is responsible for the window (a global
    result). It may be ``async`` to await the values of windows that end no later than the one it runs for.
    """

    if scope not in get_args(HandlerScope):
        raise JobError(f"on_window(scope=) is one of {get_args(HandlerScope)}, got {scope!r}")

    def mark(function: F) -> F:
        marks = [*window_marks(function), WindowMark(state, scope)]
        function._holon_windows = marks  # type: ignore[attr-defined]
        return function

    return mark


def stops_the_job(function: F) -> F:
    """Mark a handler that writes the dead letters of its rows itself: its own failure stops the job in any case."""
    function._holon_stops_the_job = True  # type: ignore[attr-defined]
    return function


def failure_stops_the_job(function: Any) -> bool:
    """Whether ``stops_the_job`` has marked it."""
    return getattr(function, "_holon_stops_the_job", False)


def window_marks(function: Any) -> list[WindowMark]:
    """The marks that ``on_window`` left."""
    return list(getattr(function, "_holon_windows", ())) if callable(function) else []
