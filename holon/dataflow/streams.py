"""Streams: what steps are written with. Each verb gives the stream behind it, with the type of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, Protocol, TypeVar

from holon.dataflow.errors import FlowError, caller
from holon.dataflow.groups import Group, aggregates_of
from holon.dataflow.steps import Aggregation, Results, RowKind, RowStep, Sink, Step, Top
from wcrdt.windows.assigners import Assigner

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
S = TypeVar("S", bound=Step)


class FlowSteps(Protocol):
    """The steps of a flow, which grow with each verb."""

    def next_number(self) -> int: ...
    def added(self, step: S) -> S: ...


class Stream(Generic[T]):
    """Rows of type ``T``. Functions see one row, are pure, and are called in any grouping of rows."""

    def __init__(self, flow: FlowSteps, step: Step) -> None:
        self._flow = flow
        self._step = step

    def filter(self, function: Callable[[T], bool]) -> Stream[T]:
        """The rows for which the function is true."""
        return self._row_step("filter", function)

    def map(self, function: Callable[[T], U]) -> Stream[U]:
        """The function's result for each row."""
        return self._row_step("map", function)

    def filter_map(self, function: Callable[[T], U | None]) -> Stream[U]:
        """The function's result for each row of which it is not None."""
        return self._row_step("filter_map", function)

    def flat_map(self, function: Callable[[T], Iterable[U]]) -> Stream[U]:
        """All that the function makes of each row."""
        return self._row_step("flat_map", function)

    def split(self, function: Callable[[T], bool]) -> tuple[Stream[T], Stream[T]]:
        """The rows for which the function is true, and the others."""
        return self.filter(function), self._row_step("reject", function)

    def key_by(self, function: Callable[[T], K]) -> KeyedStream[K, T]:
        """Group rows by an int, a text, bytes or a tuple of these."""
        return KeyedStream(self._flow, self._step, function)

    def window(self, windows: Assigner) -> WindowedStream[None, T]:
        """Windows over all rows."""
        return WindowedStream(self._flow, self._step, None, windows)

    def top(self, n: int, *, by: Callable[[T], Any], ties: Literal["all", "first"] = "first") -> Stream[T]:
        """Of each window the ``n`` rows that are largest by a function, the largest first.

        Of equal rows those with the first keys, or with ``ties="all"`` all that equal the last one taken.
        """
        if self._step.stage == 0:
            raise FlowError(f"{caller()}: top() is per window, and no window is before it")
        if n < 1:
            raise FlowError(f"{caller()}: top() needs n of 1 or more, got {n}")
        return Stream(
            self._flow, self._flow.added(Top(self._flow.next_number(), caller(), self._step, n=n, by=by, ties=ties))
        )

    def sink(self, topic: str, *, key: Callable[[T], str | bytes | int | None] | None = None) -> None:
        """Write the rows to a topic as JSON; by ``key``, as Kafka's default partitioner routes it."""
        self._flow.added(Sink(self._flow.next_number(), caller(), self._step, topic=topic, key=key))

    def _row_step(self, kind: RowKind, function: Callable[[Any], Any]) -> Stream[Any]:
        step = RowStep(self._flow.next_number(), caller(), self._step, kind=kind, function=function)
        return Stream(self._flow, self._flow.added(step))


class KeyedStream(Generic[K, T]):
    """Rows by key; windows make groups of them."""

    def __init__(self, flow: FlowSteps, step: Step, key: Callable[[T], K]) -> None:
        self._flow = flow
        self._step = step
        self._key = key

    def window(self, windows: Assigner) -> WindowedStream[K, T]:
        """A group for each key and window."""
        return WindowedStream(self._flow, self._step, self._key, windows)


class WindowedStream(Generic[K, T]):
    """Groups of rows, by window and key."""

    def __init__(self, flow: FlowSteps, step: Step, key: Callable[[T], K] | None, windows: Assigner) -> None:
        self._flow = flow
        self._step = step
        self._key = key
        self._windows = windows

    def agg(self, function: Callable[[Group[K, T]], U]) -> Stream[U]:
        """One row for each group, when its window is complete.

        The function says which aggregates it needs by calling the group's methods; it is followed at once, and called
        with the values later.
        """
        place = caller()
        try:
            aggregates = aggregates_of(function)
        except FlowError as error:
            raise FlowError(f"{place}: {error}") from error
        step = Aggregation(
            self._flow.next_number(),
            place,
            self._step,
            key=self._key,
            windows=self._windows,
            aggregates=aggregates,
            result=function,
        )
        step.out = Results(step.number, place, None, of=step)
        self._flow.added(step)
        return Stream(self._flow, step.out)
