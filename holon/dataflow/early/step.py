"""Aggregations with early results: slices go into the window that is open; keys that came have a result at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.early.open_window import OpenWindow, Read
from holon.dataflow.early.slices import EarlyWindows
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.groups import UPDATE_COLUMNS
from holon.dataflow.rows import Origins, Rows
from holon.dataflow.sliced.step import SlicedAggregation
from holon.formats.batch import Column
from holon.program.context import Context
from holon.program.handles import WindowedHandle
from holon.program.states import Local, Windowed
from wcrdt import Tumbling
from wcrdt.windows.assigners import Window

_ANY = EarlyWindows(Tumbling(2), 1, False)


@dataclass(eq=False)
class EarlyAggregation(SlicedAggregation):
    """``early``: the windows, and when their slices end; ``windows`` are these, too.

    A row is of the slice of its time, or of the first one that is open to it: so it counts in the results from there
    on. Slices with rows are due, and the last ones of their windows.
    """

    early: EarlyWindows = _ANY

    flags = UPDATE_COLUMNS

    @cached_property
    def _open(self) -> Local[OpenWindow]:
        return self._opened(OpenWindow())

    def how(self) -> str:
        kind = "with retractions" if self.early.retracts else "as upserts"
        return f"{super().how()}; early results each {self.early.every_ms} ms of event time, {kind}"

    def _refusal(self, tag: str) -> str:
        return (
            f"a {tag} has no early results: the slices of a window are combined, and it has no "
            f"such operation; leave early= out, or use another lattice (docs/lattices.md)"
        )

    # --- rows that come -----------------------------------------------------------------------------------------------

    def elements(self, rows: Rows) -> Any:
        return self._key_column(rows), self._parts(rows)

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
        origins: Origins | None = None,
    ) -> None:
        times = ctx[state].in_order(ts_ms, rows)
        super().insert(ctx, state, elements, times, rows)
        self._mark(ctx, (times, self.early.last_times(times)), rows)

    def _first_of_slices(self, times: NDArray[np.int64]) -> NDArray[np.intp]:
        found = [part.start or 0 if isinstance(part, slice) else part[0] for _, part in self.early.split(times)]
        return np.array(found, np.intp)

    # --- slices that are complete -------------------------------------------------------------------------------------

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The keys of this shard that came in a slice, or all of a complete window: by key, retractions first."""
        arrived = self._arrived(ctx, state, window)
        of, names = self.early.window_of(window.start_ms), list(self.names.values())
        is_final = window.end_ms == of.end_ms
        held = ctx[self._open].value.held(self._kept)
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
