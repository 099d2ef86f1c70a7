"""Aggregations by windows that are driven by data: rows of complete slices go on in their order, key by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.arithmetic import truth
from holon.dataflow.data_driven.open_windows import OpenWindows, Result
from holon.dataflow.data_driven.rows import RowKeys, keys_of_rows
from holon.dataflow.data_driven.slices import LAST_MS, DrivenSlices
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.groups import TIMED_OUT, UPDATE_COLUMNS
from holon.dataflow.rows import Origins, Rows
from holon.dataflow.sliced.columns import plain_column
from holon.dataflow.sliced.shards import Slices
from holon.dataflow.sliced.step import SlicedAggregation, first_of_each
from holon.dataflow.steps import Followed
from holon.errors import described
from holon.formats.batch import Column
from holon.program.context import Context
from holon.program.states import Local, StateDeclaration, Windowed
from holon.tracebacks import own_frames
from wcrdt import Between, Count
from wcrdt.windows.assigners import Window

_ANY = DrivenSlices(Count(1))


class RowElements(NamedTuple):
    """Keys, marks and the elements of each aggregate, of rows that have no place yet."""

    keys: Column
    marks: list[Column]
    parts: tuple[Column, ...]


@dataclass(eq=False)
class DrivenAggregation(SlicedAggregation):
    """``driven``: which rows belong together; ``windows`` are its slices, in which each row has a key of its own.

    ``closes_at_end``: windows that only the end of the input closes are to close there.
    """

    driven: DrivenSlices = _ANY
    closes_at_end: bool = False

    @property
    def flags(self) -> tuple[str, ...]:  # type: ignore[override]
        return flags_of(self.driven)

    @cached_property
    def _functions(self) -> Sequence[Callable[[Any], Any]]:
        return self.driven.windows.marks

    @cached_property
    def _followed(self) -> dict[str, Followed]:
        assert self.above is not None
        marks = {_mark(n): self.above.follow(each) for n, each in enumerate(self._functions)}
        return {**super()._followed, **marks}

    @cached_property
    def _keys(self) -> RowKeys:
        return RowKeys(len(self._functions))

    @cached_property
    def _slices(self) -> Slices:
        return Slices(self._keys.shard_of, self._keys.shards_of)

    def how(self) -> str:
        found = f"{super().how()}; windows of {self.driven.windows!r}, in slices of {self.driven.slice_ms} ms"
        if self.driven.early:
            found += f" with early results {'with retractions' if self.driven.retracts else 'as upserts'}"
        return found

    def _refusal(self, tag: str) -> str:
        return (
            f"a {tag} cannot be kept by {self.driven.windows!r}: the rows of a window are combined, and it has no such "
            f"operation; use Tumbling or Sliding windows, or another lattice (docs/lattices.md)"
        )

    # --- states -------------------------------------------------------------------------------------------------------

    @cached_property
    def _open(self) -> Local[OpenWindows]:
        return self._opened(OpenWindows())

    @cached_property
    def _next(self) -> Local[int]:
        """How many rows of windows this partition has inserted: their place in the order of its rows."""
        return Local(0, track="window", stage=self.stage - 1, name=f"{self.state}next")

    def declared(self) -> Windowed[Any, Any]:
        state = super().declared()
        state.sharding = self._keys.sharding
        return state

    def further_states(self) -> Sequence[StateDeclaration]:
        return (*super().further_states(), self._next) if self.stage else super().further_states()

    # --- rows that come -----------------------------------------------------------------------------------------------

    def elements(self, rows: Rows) -> RowElements:
        marks = [self._column(_mark(n), each, rows) for n, each in enumerate(self._functions)]
        as_mark = truth if isinstance(self.driven.windows, Between) else _without_bools
        marks = [_without_bools(as_mark(column)) for column in marks]
        return RowElements(self._key_column(rows), marks, self._parts(rows))

    def checked_elements(self, rows: Rows) -> tuple[RowElements, NDArray[np.int64]]:
        elements = self.elements(rows)
        zeros = np.zeros(len(rows), np.int64)
        keys = keys_of_rows(elements.keys, elements.marks, rows.ts_ms, 0, Origins(np.arange(len(rows)), zeros, zeros))
        self._bottom.check_many((keys, elements.parts))
        return elements, rows.ts_ms

    def insert(
        self,
        ctx: Context,
        state: Windowed[Any, Any],
        elements: RowElements,
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None = None,
        origins: Origins | None = None,
    ) -> None:
        origins = self._origins(ctx, len(ts_ms)) if origins is None else origins
        keys = keys_of_rows(elements.keys, elements.marks, ts_ms, ctx.partition, origins)
        super().insert(ctx, state, (keys, elements.parts), ts_ms, rows)
        marked = [ts_ms]
        if self.driven.timeout_ms is not None:
            marked.append(self.driven.due_ms(ts_ms))
        elif self.closes_at_end:
            marked.append(np.full(len(ts_ms), LAST_MS))
        self._mark(ctx, marked, rows)

    def _origins(self, ctx: Context, count: int) -> Origins:
        """Of rows of windows: their number, on their partition."""
        local, zeros = ctx[self._next], np.zeros(count, np.int64)
        local.value += count
        return Origins(np.arange(local.value - count, local.value), zeros, zeros)

    def _first_of_slices(self, times: NDArray[np.int64]) -> NDArray[np.intp]:
        return first_of_each(times // self.driven.slice_ms)

    # --- slices that are complete -------------------------------------------------------------------------------------

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The windows of this shard that a complete slice closes or, of early results, changes."""
        rows, names = self._keys.in_order(self._arrived(ctx, state, window)), list(self.names.values())

        def fails(key: Any, ts_ms: int, marks: Sequence[Any], error: BaseException) -> None:
            ctx.emit_dead(
                {"time": ts_ms, "marks": list(marks)},
                step=f"step {self.number} ({self.verb}, {self.place})",
                key=key,
                reason=f"next() of its windows raised {described(error)}\n{own_frames(error)}".rstrip(),
            )

        held = ctx[self._open].value.held(self.driven, self._record)
        found = held.take(rows, window.end_ms, names, fails if ctx.on_error == "dead-letter" else None)
        return self._results_of(found, names, ctx.timestamp_ms)

    def _results_of(self, found: Sequence[Result], names: Sequence[str], ts_ms: int) -> Rows:
        count = len(found)
        columns = {name: plain_column([one.values[n] for one in found]) for n, name in enumerate(names)}
        return Rows(np.full(count, ts_ms), np.arange(count), columns={
            "key": [None] * count if self.key is None else plain_column([one.key for one in found]),
            "window.start_ms": np.array([one.first_ms for one in found], np.int64),
            "window.end_ms": np.array([one.end_ms for one in found], np.int64),
            **{name: np.array([getattr(one, name) for one in found], np.bool_) for name in self.flags},
            **columns,
        })  # fmt: skip


def flags_of(driven: DrivenSlices) -> tuple[str, ...]:
    """Those that groups of these windows have."""
    return (TIMED_OUT, *UPDATE_COLUMNS) if driven.early else (TIMED_OUT,)


def _mark(number: int) -> str:
    return f"mark{number}"


def _without_bools(column: Column) -> Column:
    """Bools as 0 and 1; other marks as they are."""
    if isinstance(column, np.ndarray):
        return column.astype(np.int64) if column.dtype == np.bool_ else column
    values = as_list(column)
    if bool not in set(map(type, values)):
        return column
    return [int(value) if type(value) is bool else value for value in values]
