"""Aggregations with early results: rows go into slices, and complete slices into the window that is open.

Slices are a state of all partitions. One partition answers for a key: the key is of its shard. There the slices of a
window are taken in, one after the other, and the keys that came in one have a result at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.aggregations import Aggregation
from holon.dataflow.arithmetic import as_list
from holon.dataflow.early.open_window import OpenWindow, Read
from holon.dataflow.early.slices import EarlyWindows
from holon.dataflow.rows import Rows
from holon.dataflow.sessions.shards import Slices, whole
from holon.formats.batch import Column
from holon.program.context import Context
from holon.program.function import HandlerScope
from holon.program.handles import WindowedHandle
from holon.program.states import Local, StateDeclaration, Windowed
from wcrdt import BoolOr, ColumnsOf, GCounter, Lattice, RecordOf, Tumbling
from wcrdt.windows.assigners import Window

_ANY = EarlyWindows(Tumbling(2), 1, False)


@dataclass(eq=False)
class EarlyAggregation(Aggregation):
    """``early``: the windows, and when their slices end; ``windows`` are these, too.

    A row is of the slice of its time, or of the first one that is open to it: so it counts in the results from there
    on. Beside the state of slices there is one that marks those with rows, and the last ones of their windows.
    """

    early: EarlyWindows = _ANY

    is_parting = True
    is_updating = True

    @cached_property
    def _groups(self) -> ColumnsOf[Any, Any, Any]:
        return ColumnsOf(RecordOf(self._lattices or {"": GCounter()}))

    @cached_property
    def _slices(self) -> Slices:
        return Slices()

    def bottom(self) -> Lattice[Any, Any]:
        return self._groups.bottom()

    def how(self) -> str:
        kind = "with retractions" if self.early.retracts else "as upserts"
        return f"{super().how()}; early results each {self.early.every_ms} ms of event time, {kind}"

    def check(self) -> None:
        super().check()
        for one in self.aggregates.values():
            if not one.lattice.combines:
                raise self.error(
                    f"a {one.lattice.tag} has no early results: the slices of a window are combined, and it has no "
                    f"such operation; leave early= out, or use another lattice (docs/lattices.md)"
                )

    # --- states -------------------------------------------------------------------------------------------------------

    @cached_property
    def _due(self) -> Windowed[bool, bool]:
        return self._declared(BoolOr(), f"{self.state}due")

    @cached_property
    def _open(self) -> Local[OpenWindow]:
        return Local(OpenWindow(), type=OpenWindow, track="window", stage=self.stage, name=f"{self.state}open")

    def further_states(self) -> Sequence[StateDeclaration]:
        return self._due, self._open

    def answered(self, state: Windowed[Any, Any]) -> tuple[Windowed[Any, Any], HandlerScope]:
        return self._due, "partition"

    # --- rows that come -----------------------------------------------------------------------------------------------

    def elements(self, rows: Rows) -> Any:
        keys = np.zeros(len(rows), np.int64) if self.key is None else self._column("key", self.key, rows)
        return keys, self._aggregated(rows) or (np.ones(len(rows), np.int64),)

    def take_late(
        self,
        state: WindowedHandle[Any, Any],
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None,
        letters: bool,
    ) -> NDArray[np.intp]:
        return state.take_late(ts_ms, rows, letters=letters, judged_ms=self.early.last_times(ts_ms))

    def insert(
        self,
        ctx: Context,
        state: Windowed[Any, Any],
        elements: Any,
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        times = ctx[state].in_order(ts_ms, rows)
        super().insert(ctx, state, elements, times, rows)
        due = ctx[self._due]
        for marked in (times, self.early.last_times(times)):
            found = [part.start or 0 if isinstance(part, slice) else part[0] for _, part in self.early.split(marked)]
            first = np.array(found, np.intp)
            due.insert_many(np.ones(len(first), np.bool_), marked[first], first if rows is None else rows[first])

    # --- slices that are complete -------------------------------------------------------------------------------------

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The keys of this shard that came in a slice, or all of a complete window: by key, retractions first."""
        found: Any = ctx[state].window_state(window)
        arrived = whole(found) if self.alone else self._slices.shard(found, ctx.partition, ctx.partitions)
        of, names = self.early.window_of(window.start_ms), list(self.names.values())
        is_final = window.end_ms == of.end_ms
        held = ctx[self._open].value.held(self._groups)
        come = held.settled(arrived)
        parts = [(held.read(None if is_final else come, names), False, True)] if self.early.retracts else []
        held.take(come)
        parts.append((held.read(None if is_final else come, names), is_final, False))
        if is_final:
            held.clear()
        return self._rows(parts, of, ctx.timestamp_ms)

    def _rows(self, parts: Sequence[tuple[Read, bool, bool]], window: Window, ts_ms: int) -> Rows:
        counts = [len(as_list(read.keys)) for read, _, _ in parts]
        count = sum(counts)
        keys = [None] * count if self.key is None else _joined([read.keys for read, _, _ in parts])
        return Rows(np.full(count, ts_ms), np.arange(count), columns={
            "key": keys, "window.start_ms": np.full(count, window.start_ms),
            "window.end_ms": np.full(count, window.end_ms),
            "final": np.repeat([final for _, final, _ in parts], counts),
            "retracted": np.repeat([retracted for _, _, retracted in parts], counts),
            **{name: _joined([read.values[name] for read, _, _ in parts]) for name in self.names.values()},
        })  # fmt: skip


def _joined(columns: Sequence[Column]) -> Column:
    """The columns one behind the other."""
    found = [column for column in columns if len(as_list(column))] or columns[:1]
    if len(found) == 1:
        return found[0]
    if all(isinstance(column, np.ndarray) for column in found) and len({c.dtype for c in found}) == 1:  # type: ignore[union-attr]
        return np.concatenate(found)  # type: ignore[arg-type]
    return [value for column in found for value in as_list(column)]
