"""The common part of streams of all partitions and of each: how a verb adds its step to the flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from holon.dataflow.aggregations import Aggregation, Results, Top
from holon.dataflow.data_driven.slices import DrivenSlices
from holon.dataflow.data_driven.step import DrivenAggregation, flags_of
from holon.dataflow.early.slices import EarlyWindows
from holon.dataflow.early.step import EarlyAggregation
from holon.dataflow.errors import FlowError, NoSuchVerb, caller
from holon.dataflow.groups import (
    UPDATE_COLUMNS,
    Aggregate,
    aggregates_of,
    check_marks_retractions,
    identity,
    parts_of_key,
)
from holon.dataflow.joins.step import Join, JoinSide
from holon.dataflow.late.rows import LateRows
from holon.dataflow.row_types import MapColumns, OfType
from holon.dataflow.sessions.step import SessionAggregation
from holon.dataflow.steps import RowKind, RowStep, Sink, Step, United
from holon.files import Files
from holon.formats.batch import Columns
from wcrdt import Lattice
from wcrdt.windows.assigners import Assigner
from wcrdt.windows.durations import duration_ms
from wcrdt.windows.sessions import Session

S = TypeVar("S", bound=Step)
Windows = Assigner | Session


def _refusal(where: str, what: str) -> FlowError:
    return FlowError(f"{where}: {what}")


def _lateness_ms(lateness: int | str | None) -> int | None:
    """Raises ``FlowError`` for what is no duration."""
    try:
        found = None if lateness is None else duration_ms(lateness)
    except (TypeError, ValueError) as error:
        raise FlowError(f"window ({caller()}): lateness: {error}") from error
    if found is not None and found < 0:
        raise FlowError(f"window ({caller()}): lateness is 0 or more, got {lateness!r}")
    return found


class FlowSteps(Protocol):
    """The steps of a flow, which grow with each verb."""

    def next_number(self) -> int: ...
    def next_files_topic(self) -> str: ...
    def add_files(self, step: Sink, files: Files) -> None: ...
    def added(self, step: S) -> S: ...


_OF_ROWS = (
    "filter",
    "map",
    "filter_map",
    "flat_map",
    "split",
    "of",
    "union",
    "map_columns",
    "per_partition",
    "sink",
    "top",
)
_OF_GROUPS = ("agg", "fold", "join")


class Hinting:
    """Errors for verbs of other kinds of streams. ``_needed``: what comes before each, by its name."""

    _needed: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # where it would give each name a type

        def __getattr__(self, name: str) -> Any:
            needed = type(self)._needed.get(name)
            if needed is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise NoSuchVerb(f"{caller()}: {type(self).__name__} has no {name}: {needed}")


def _for_each(verbs: Sequence[str], needed: str) -> dict[str, str]:
    return {verb: needed.format(verb) for verb in verbs}


NEEDED_BY_KEYS = {
    **_for_each(_OF_ROWS, "write it before key_by, or behind groups: .window(...).agg(...).{}(...)"),
    **_for_each((*_OF_GROUPS, "distinct"), 'rows by key go into windows first: .window(Tumbling("10s")).{}(...)'),
    "key_by": "the stream has keys; several ones are a tuple: .key_by(lambda row: (row.a, row.b))",
}


class RowVerbs(Hinting):
    """Rows of a step, and the steps that verbs add behind it. ``_alone``: windows are those of each partition."""

    _alone = False
    _needed = _for_each((*_OF_GROUPS, "distinct"), 'rows go into windows first: .window(Tumbling("10s")).{}(...)')

    def __init__(self, flow: FlowSteps, step: Step) -> None:
        self._flow = flow
        self._step = step

    def _row_step(self, kind: RowKind, function: Callable[[Any], Any], columnar: bool) -> Step:
        number, place = self._flow.next_number(), caller()
        return self._flow.added(RowStep(number, place, self._step, columnar=columnar, kind=kind, function=function))

    def _of(self, kind: type) -> Step:
        return self._flow.added(OfType(self._flow.next_number(), caller(), self._step, kind=kind))

    def _union(self, others: Sequence[RowVerbs]) -> Step:
        number, place = self._flow.next_number(), caller()
        if any(other._flow is not self._flow for other in others):
            raise FlowError(f"step {number} (union, {place}): a stream of another flow; write both in one flow")
        if any(other._alone is not self._alone for other in others):
            raise FlowError(
                f"step {number} (union, {place}): a stream of all partitions and one of each; use per_partition() or "
                f"all_partitions() first"
            )
        return self._flow.added(United(number, place, self._step, others=tuple(other._step for other in others)))

    def _map_columns(self, function: Callable[[Columns], Columns], row: type) -> Step:
        number, place = self._flow.next_number(), caller()
        return self._flow.added(MapColumns(number, place, self._step, function=function, row=row))

    def _top(self, n: int, by: Callable[[Any], Any], ties: Literal["all", "first"], columnar: bool) -> Step:
        number, place = self._flow.next_number(), caller()
        if n < 1:
            raise FlowError(f"step {number} (top, {place}): n is 1 or more, got {n}")
        return self._flow.added(Top(number, place, self._step, columnar=columnar, n=n, by=by, ties=ties))

    def _sink(self, to: str | Files, key: Callable[[Any], Any] | None) -> None:
        topic = to if isinstance(to, str) else to.topic or self._flow.next_files_topic()
        sink = Sink(self._flow.next_number(), caller(), self._step, topic=topic, key=key)
        if isinstance(to, Files) and to.needs_time and to.time is None and self._step.stage == 0:
            raise sink.error(
                f"rows of records have no window, whose time the folders of {to.path!r} would have; name the field "
                f'with their time: Files({to.path!r}, time="at")'
            )
        step = self._flow.added(sink)
        if isinstance(to, Files):
            self._flow.add_files(step, to)


class LateVerb(RowVerbs):
    """Rows of complete windows, and the step of the rows that came too late for all of them."""

    def _late(self) -> Step:
        assert isinstance(self._step, Results) and self._step.of is not None
        of = self._step.of
        if of.late is None:
            of.late = self._flow.added(LateRows(self._flow.next_number(), caller(), None, of=of))
        return of.late


class Windowing(Hinting):
    """Groups of rows, by window and key (None: one group for all rows), and the steps that make a row of each."""

    _alone = False
    _needed: ClassVar[Mapping[str, str]] = {
        **_for_each(_OF_ROWS, "groups become rows first: .agg(...).{}(...)"),
        "key_by": "it comes before window: .key_by(...).window(...)",
        "window": "a stream goes into one kind of windows at a time; further ones are behind agg",
    }

    def __init__(
        self,
        flow: FlowSteps,
        step: Step,
        key: Callable[[Any], Any] | None,
        windows: Windows,
        lateness: int | str | None,
        sharded: bool = False,
    ) -> None:
        self._flow = flow
        self._step = step
        self._key = key
        self._windows = windows
        self._lateness_ms = _lateness_ms(lateness)
        self._sharded = sharded

    def _agg(self, function: Callable[[Any], Any], columnar: bool) -> Step:
        number, place = self._flow.next_number(), caller()
        try:
            above = self._step
            key = None if self._key is None else above.follow(self._key)[0]
            flags = self._flags()
            if isinstance(self._windows, EarlyWindows | DrivenSlices) and self._windows.retracts:
                check_marks_retractions(function, parts_of_key(key), flags)
            aggregates = aggregates_of(function, parts_of_key(key), flags)
        except FlowError as error:
            raise FlowError(f"step {number} (agg, {place}): {error}") from error
        return self._added("agg", self._key, aggregates, function, columnar)

    def _fold(self, lattice: Lattice[Any, Any], of: Callable[[Any], Any], columnar: bool) -> Step:
        self._refuse_early("fold")
        kind = f"fold {lattice.tag}{lattice.shape()!r}"
        return self._added("fold", self._key, {identity(kind, of): Aggregate(kind, lattice, of)}, None, columnar)

    def _distinct(self, of: Callable[[Any], Any], columnar: bool) -> Step:
        self._refuse_early("distinct")
        if isinstance(self._windows, DrivenSlices):
            raise FlowError(
                f"step {self._flow.next_number()} (distinct, {caller()}): each value would have windows of its own; "
                f"use agg(lambda g: g.fold(GSet(), ...))"
            )
        key = self._key
        both = of if key is None else lambda row: (key(row), of(row))
        return self._added("distinct", both, {}, None, columnar)

    def _join(self, flow: FlowSteps, step: Step, key: Callable[[Any], Any], sharded: bool) -> Step:
        """``flow``, ``step``, ``key`` and ``sharded`` are of the other stream."""
        number, place, windows = self._flow.next_number(), caller(), self._windows
        refuse = partial(_refusal, f"step {number} (join, {place})")
        if flow is not self._flow:
            raise refuse("a stream of another flow; write both in one flow")
        if isinstance(windows, Session | EarlyWindows | DrivenSlices):
            raise refuse(f"windows of a join follow from the times of rows alone, such as Tumbling, not {windows!r}")
        if self._sharded or sharded:
            raise refuse("a join sends the other stream to all partitions; leave sharded=True out")
        if self._key is None:
            raise refuse("a join is by key; put key_by() before window()")
        late_ms, name = self._lateness_ms, "join"
        left = JoinSide(
            number, place, self._step, key=self._key, lateness_ms=late_ms, windows=windows, alone=True, name=name
        )
        self._flow.added(left)
        right = Join(number + 1, place, step, key=key, windows=windows, lateness_ms=late_ms, name=name, left=left)
        right.out = Results(number + 1, place, None, of=right)
        self._flow.added(right)
        return right.out

    def _flags(self) -> tuple[str, ...]:
        """Those of groups."""
        if isinstance(self._windows, DrivenSlices):
            return flags_of(self._windows)
        return UPDATE_COLUMNS if isinstance(self._windows, EarlyWindows) else ()

    def _refuse_early(self, verb: str) -> None:
        if isinstance(self._windows, EarlyWindows) or (isinstance(self._windows, DrivenSlices) and self._windows.early):
            raise FlowError(
                f"step {self._flow.next_number()} ({verb}, {caller()}): its rows cannot be marked as early ones; use "
                f"agg(lambda g: (g.key, ..., g.final))"
            )

    def _added(
        self,
        name: str,
        key: Callable[[Any], Any] | None,
        aggregates: dict[Any, Aggregate],
        result: Callable[[Any], Any] | None,
        columnar: bool,
    ) -> Step:
        number, place = self._flow.next_number(), caller()
        windows, make = self._windows, Aggregation
        if isinstance(windows, Session):
            windows, make = windows.slices, partial(SessionAggregation, session=windows)
        elif isinstance(windows, EarlyWindows):
            make = partial(EarlyAggregation, early=windows)
        elif isinstance(windows, DrivenSlices):
            make = partial(DrivenAggregation, driven=windows)
        step = make(
            number,
            place,
            self._step,
            columnar=columnar,
            key=key,
            windows=windows,
            aggregates=aggregates,
            result=result,
            alone=self._alone,
            name=name,
            sharded=self._sharded,
            lateness_ms=self._lateness_ms,
        )
        step.out = Results(number, place, None, of=step)
        self._flow.added(step)
        return step.out
