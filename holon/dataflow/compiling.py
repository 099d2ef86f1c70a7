"""A pipeline as the parts of a job: a function of batches, states, and handlers of windows (Holon, section 3.1).

Steps before the first window run on the record track. Each aggregation is a state, one stage behind the window that its
rows come from. The steps behind it run in a handler, on the partition that is responsible for the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from holon.dataflow.aggregations import Aggregation, Results
from holon.dataflow.data_driven.step import DrivenAggregation
from holon.dataflow.expressions import Decision, joined
from holon.dataflow.failing_rows import each_without_failing, failure_of, without_failing
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.outputs.failures import Trial, failed_group, failed_record
from holon.dataflow.outputs.json_rows import json_rows
from holon.dataflow.rows import Origins, Rows
from holon.dataflow.steps import OBJECTS, Entry, Sink, Step, column, followed
from holon.errors import USER_ERRORS, JobError, described
from holon.formats.batch import Batch, Column
from holon.outputs.partitioner import key_or_none
from holon.program.context import Context
from holon.program.function import on_window, stops_the_job
from holon.program.states import Windowed
from holon.tracebacks import own_frames
from wcrdt.windows.assigners import Window


class FieldFunction:
    """A function of a Struct as one of columns."""

    def __init__(self, function: Callable[[Any], Any], struct: type) -> None:
        self.function = function
        self.struct = struct

    @cached_property
    def _decision(self) -> Decision | None:
        return followed(self.function, self.struct, checked=True)[0]

    def __call__(self, columns: Mapping[str, Column]) -> Column:
        rows = len(next(iter(columns.values())))
        zeros = np.zeros(rows, np.int64)
        return column(self._decision, self.function, Rows(zeros, zeros, columns=columns, struct=self.struct))


class KindFunction:
    """A function of rows that are one of several Structs as one of their columns."""

    def __init__(self, function: Callable[[Any], Any], kinds: tuple[type, ...]) -> None:
        self.function = function
        self.kinds = kinds

    @cached_property
    def _decisions(self) -> list[Decision | None]:
        return [followed(self.function, kind, checked=True)[0] for kind in self.kinds]

    @property
    def is_followed(self) -> bool:
        """Whether no kind needs objects."""
        return None not in self._decisions

    def __call__(self, columns: Mapping[str, Column]) -> Column:
        places = np.arange(len(next(iter(columns.values()))))
        rows, parts = Rows(places, places, columns=columns), []
        for kind, decision in zip(self.kinds, self._decisions, strict=True):
            mine = rows.of_kind(kind)
            if len(mine):
                parts.append((mine.index, column(decision, self.function, mine)))
        return joined(parts, len(places))


class Compiled:
    """The parts of a job. ``entries``: the source's step by topic; ``outputs``: each sink's output, by its number."""

    def __init__(self, entries: Mapping[str, Entry], steps: Sequence[Step], outputs: Mapping[int, str]) -> None:
        self.outputs = outputs
        self._aggregations = [step for step in steps if isinstance(step, Aggregation)]
        self._declared = {step.number: step.declared() for step in self._aggregations}
        self.states = [*self._declared.values(), *(one for step in self._aggregations for one in step.further_states())]
        self.process_batch = _named("process_batch", _batch_function(entries, outputs, self._declared))
        self.handlers = [self._handler(step) for step in self._aggregations if step.out is not None]

    def _handler(self, step: Aggregation) -> Callable[[Window, Context], Any]:
        state = self._declared[step.number]
        handler = _Handler(step, state, self.outputs, self._declared)
        named = _named(f"complete_{step.state}", handler)
        answered, scope = step.answered(state)
        return on_window(answered, scope=scope)(stops_the_job(named))


def _named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


def _batch_function(
    entries: Mapping[str, Entry], outputs: Mapping[int, str], states: Mapping[int, Windowed[Any, Any]]
) -> Any:
    """Of one source as it always was: the function is part of the fingerprint."""
    if len(entries) == 1:
        (entry,) = entries.values()
        return partial(_process_batch, entry, outputs, states)
    return partial(_process_batch_of_topic, entries, outputs, states)


def _process_batch_of_topic(
    entries: Mapping[str, Entry],
    outputs: Mapping[int, str],
    states: Mapping[int, Windowed[Any, Any]],
    batch: Batch[Any],
    ctx: Context,
) -> None:
    _process_batch(entries[ctx.topic], outputs, states, batch, ctx)


def _process_batch(
    entry: Entry,
    outputs: Mapping[int, str],
    states: Mapping[int, Windowed[Any, Any]],
    batch: Batch[Any],
    ctx: Context,
) -> None:
    index = np.arange(len(batch))
    if entry.reads_kinds:
        rows = Rows(batch.ts_ms, index, columns=batch.columns, struct=Union[entry.kinds], is_whole=True)  # noqa: UP007
    elif entry.struct is OBJECTS:
        if len(batch.events) != len(batch):
            raise JobError(
                f"the flow's source ({entry.place}) has a format that gives columns in place of events, and a flow "
                f"knows those of JsonColumns and ArrowColumns alone; give a format whose batches have events"
            )
        rows = Rows(batch.ts_ms, index, objects=list(batch.events), is_whole=True)
    else:
        rows = Rows(batch.ts_ms, index, columns=batch.columns, struct=entry.struct, is_whole=True)
    target = _OfRecords(ctx, outputs, states, _Fates(index, batch))
    error = failure_of(partial(entry.pass_on, target=target), rows)
    if error is None:
        target.fates.count(ctx)
        return
    if ctx.on_error == "dead-letter" and batch.offsets[0] != batch.offsets[-1]:
        raise error  # the track finds the record by halves
    raise failed_record(entry, rows, batch.offsets, ctx, states) or error


class _Fates:
    """Which rows of a batch a branch has taken, and which came too late for a window. ``all_rows``: their places."""

    def __init__(self, all_rows: NDArray[np.intp], batch: Batch[Any]) -> None:
        self.all_rows = all_rows
        self._batch = batch
        self._counts: dict[int, NDArray[np.int64]] = {}
        self.taken = np.zeros(len(all_rows), np.bool_)
        self._late: NDArray[np.bool_] | None = None

    def index_of(self, rows: Rows) -> NDArray[np.intp] | None:
        """The rows of the batch that these come from; None: each of itself, which costs no gathering."""
        return None if rows.index is self.all_rows else rows.index

    def origins_of(self, step: Step, rows: Rows) -> Origins:
        """Those of rows that a step gets; each of a row of the batch is another one, in the order in which they come.

        Behind a union, rows of one stream come before those of the next: so for each row of the batch, too.
        """
        counts = self._counts.setdefault(step.number, np.zeros(len(self.all_rows), np.int64))
        order = np.argsort(rows.index, kind="stable")
        index = rows.index[order]
        first = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
        sizes = np.diff(np.append(first, len(index)))
        ordinals = np.empty(len(index), np.int64)
        ordinals[order] = counts[index] + np.arange(len(index)) - np.repeat(first, sizes)
        counts[index[first]] += sizes
        places = self._batch.places
        return Origins(
            self._batch.offsets[rows.index], np.zeros_like(ordinals) if places is None else places[rows.index], ordinals
        )

    def take(self, rows: Rows) -> None:
        index = self.index_of(rows)
        self.taken[slice(None) if index is None else index] = True

    def come_late(self, index: NDArray[np.intp]) -> None:
        """A window was closed to these rows."""
        if self._late is None:
            self._late = np.zeros(len(self.all_rows), np.bool_)
        self._late[index] = True

    def count(self, ctx: Context) -> None:
        """Rows that no branch has taken are late where a window was closed to them, else filtered."""
        others = len(self.taken) - int(np.count_nonzero(self.taken))
        late = 0 if self._late is None else int(np.count_nonzero(self._late & ~self.taken))
        ctx.count_late(late)
        ctx.count_filtered(others - late)


class _Target:
    """Where rows leave. A record at which a function fails is the record track's to set aside."""

    takes_failing = False

    def __init__(self, ctx: Context, outputs: Mapping[int, str], states: Mapping[int, Windowed[Any, Any]]) -> None:
        self._ctx = ctx
        self._outputs = outputs
        self._states = states

    def fail(self, step: Any, row: Rows, error: BaseException) -> None:
        raise error


class _OfRecords(_Target):
    """Rows of records leave by columns."""

    def __init__(
        self,
        ctx: Context,
        outputs: Mapping[int, str],
        states: Mapping[int, Windowed[Any, Any]],
        fates: _Fates,
        behind_late: bool = False,
    ) -> None:
        super().__init__(ctx, outputs, states)
        self.fates = fates
        self._behind_late = behind_late

    def _take(self, rows: Rows) -> None:
        if not self._behind_late:
            self.fates.take(rows)

    def emit(self, step: Sink, rows: Rows) -> None:
        self._take(rows)
        keys = None if step.key is None else step.key_bytes(rows)
        self._ctx.emit_many(json_rows(rows), rows.index, output=self._outputs[step.number], keys=keys)

    def insert(self, step: Aggregation, rows: Rows) -> None:
        state, index = self._states[step.number], self.fates.index_of(rows)
        if step.insert_if_open(self._ctx, state, rows, index):
            self._take(rows)
            return
        handle = self._ctx[state]
        routed = step.late is not None and bool(step.late.consumers)
        late = step.take_late(handle, rows.ts_ms, index, not routed)
        if len(late):
            rows = self._without_late(step, rows, late)
        if len(rows):
            self._take(rows)
            index = self.fates.index_of(rows)
            origins = self.fates.origins_of(step, rows) if isinstance(step, DrivenAggregation) else None
            step.insert(self._ctx, state, step.elements(rows), rows.ts_ms, index, origins)

    def _without_late(self, step: Aggregation, rows: Rows, late: NDArray[np.intp]) -> Rows:
        too_late = rows.take(late)
        self.fates.come_late(too_late.index)
        if step.late is not None:
            step.late.pass_on(too_late, _OfRecords(self._ctx, self._outputs, self._states, self.fates, True))
        return rows.take(np.delete(np.arange(len(rows)), late))


class _OfWindows(_Target):
    """Rows of windows leave one by one; ``keys`` are those of the window's groups."""

    def __init__(
        self,
        ctx: Context,
        outputs: Mapping[int, str],
        states: Mapping[int, Windowed[Any, Any]],
        groups: Rows,
    ) -> None:
        super().__init__(ctx, outputs, states)
        assert groups.columns is not None
        self.takes_failing = ctx.on_error == "dead-letter"
        self._keys = groups.columns["key"]

    def emit(self, step: Sink, rows: Rows) -> None:
        values = json_rows(rows)
        if isinstance(values, BinaryColumn):
            keys = self._keys_of(step, rows)
            if keys is not None:
                self._ctx.emit_many(values, output=self._outputs[step.number], keys=keys)
                return
        each_without_failing(step, rows, self, partial(self._emit, step))

    def _keys_of(self, step: Sink, rows: Rows) -> Sequence[bytes | None] | None:
        """The key of each row; None if the function fails for one."""
        if step.key is None:
            return [None] * len(rows)
        try:
            return step.key_bytes(rows)
        except USER_ERRORS:
            return None

    def _emit(self, step: Sink, value: Any) -> None:
        key = None if step.key is None else key_or_none(step.key(value))
        self._ctx.emit(value, output=self._outputs[step.number], key=key)

    def insert(self, step: Aggregation, rows: Rows) -> None:
        state = self._states[step.number]
        if not self.takes_failing:
            step.insert(self._ctx, state, step.elements(rows), rows.ts_ms)
            return
        found = without_failing(step, rows, self, step.checked_elements)
        if found is not None:
            step.insert(self._ctx, state, *found)

    def fail(self, step: Any, row: Rows, error: BaseException) -> None:
        of = step.of if isinstance(step, Results) else None
        self._ctx.emit_dead(
            row.objects()[0] if of is None else None,
            step=(step if of is None else of).label,
            key=as_list(self._keys)[int(row.index[0])],
            reason=f"the function raised {described(error)}\n{own_frames(error)}".rstrip(),
        )


class _Handler:
    """Hands on the rows of a complete window."""

    def __init__(
        self,
        step: Aggregation,
        state: Windowed[Any, Any],
        outputs: Mapping[int, str],
        states: Mapping[int, Windowed[Any, Any]],
    ) -> None:
        self.step = step
        self.state = state
        self.outputs = outputs
        self.states = states

    async def __call__(self, window: Window, ctx: Context) -> None:
        groups = await self.step.read(ctx, self.state, window)
        if not len(groups):
            return
        target = _OfWindows(ctx, self.outputs, self.states, groups)
        error = failure_of(partial(self._hand_on, target=target), groups)
        if error is not None:
            raise failed_group(groups, self._hand_on, ctx) or error

    def _hand_on(self, groups: Rows, target: _OfWindows | Trial) -> None:
        out = self.step.out
        assert out is not None
        rows = without_failing(out, groups, target, self.step.results)
        if rows is not None:
            out.pass_on(rows, target)
