"""The row at which a step of a flow fails: found among those of a batch, or of a window, without any effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from holon.dataflow.aggregations import Results
from holon.dataflow.failing_rows import failure_of, without_failing
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.outputs.json_rows import json_rows
from holon.dataflow.rows import Rows
from holon.dataflow.steps import Sink
from holon.errors import FailedStep
from holon.job import encode_json
from holon.program.context import Context


class Trial:
    """Rows leave for nowhere: all is computed and checked that may fail.

    ``takes_failing``: failures are kept, and not raised. ``states``: those by which rows of records may be late, which
    are not inserted then; None for rows of windows.
    """

    def __init__(self, ctx: Context, states: Mapping[int, Any] | None, takes_failing: bool) -> None:
        self._ctx = ctx
        self._states = states
        self.takes_failing = takes_failing
        self.failed: list[_Failed] = []

    def fail(self, step: Any, row: Rows, error: BaseException) -> None:
        self.failed.append(_Failed(step, row, error))

    def emit(self, step: Any, rows: Rows) -> None:
        without_failing(step, rows, self, partial(_leave, step))

    def insert(self, step: Any, rows: Rows) -> None:
        if self._states is not None:
            rows = self._on_time(step, rows, self._ctx[self._states[step.number]])
        if len(rows):
            without_failing(step, rows, self, step.checked_elements)

    def _on_time(self, step: Any, rows: Rows, state: Any) -> Rows:
        late = step.take_late(state, rows.ts_ms, rows.index, False)
        if len(late) and step.late is not None:
            step.late.pass_on(rows.take(late), self)
        return rows.take(np.delete(np.arange(len(rows)), late))


class _Failed(NamedTuple):
    """The first failure of a row: of which step, at which row of it."""

    step: Any
    row: Rows
    error: BaseException


def failed_record(
    entry: Any, rows: Rows, offsets: NDArray[np.int64], ctx: Context, states: Mapping[int, Any]
) -> FailedStep | None:
    """The first of these rows of records at which a step behind ``entry`` fails; None: none fails by itself.

    The caller has failed, and takes back or drops all that was done: rows count as late again. ``offsets``: of their
    records.
    """
    found = _first_failed(rows, entry.pass_on, lambda takes: Trial(ctx, states, takes))
    if found is None:
        return None
    place, (step, _, error) = found
    return FailedStep(step.label, error, int(offsets[place]))


def failed_group(groups: Rows, hand_on: Callable[[Rows, Trial], None], ctx: Context) -> FailedStep | None:
    """The first group of a complete window at which it, or a step behind it, fails; None: none does by itself."""
    found = _first_failed(groups, hand_on, lambda takes: Trial(ctx, None, takes))
    if found is None:
        return None
    place, (step, _, error) = found
    assert groups.columns is not None
    key = as_list(groups.columns["key"])[place]
    label = step.of.label if isinstance(step, Results) and step.of is not None else step.label
    return FailedStep(label if key is None else f"{label}, key {key!r},", error)


def _first_failed(
    rows: Rows, hand_on: Callable[[Rows, Any], None], new_trial: Callable[[bool], Trial]
) -> tuple[int, _Failed] | None:
    """The place of the first row at which handing on fails, and its failure.

    Functions of a flow see one row, so one of two halves fails as the whole does.
    """
    low, high = 0, len(rows)
    while high - low > 1:
        middle = (low + high) // 2
        if failure_of(lambda part: hand_on(part, new_trial(False)), rows.take(np.arange(low, middle))) is not None:
            high = middle
        else:
            low = middle
    trial = new_trial(True)
    hand_on(rows.take(np.array([low])), trial)
    return (low, trial.failed[0]) if trial.failed else None


def _leave(step: Sink, rows: Rows) -> None:
    """Encode rows, and their keys."""
    values = json_rows(rows)
    if not isinstance(values, BinaryColumn):
        for value in values:
            encode_json(value)
    if step.key is not None:
        step.key_bytes(rows)
