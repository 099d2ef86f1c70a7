"""Aggregations by session: the slices of a key are combined, until one is complete that goes beyond the gap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.rows import Origins, Rows
from holon.dataflow.sessions.objects import FIRST, LAST
from holon.dataflow.sessions.open_sessions import OpenSessions
from holon.dataflow.sliced.step import SlicedAggregation, first_of_each
from holon.program.context import Context
from holon.program.states import Local, Windowed
from holon.time.units import MAX_TS_MS
from wcrdt import Max, Min, RecordOf, Session
from wcrdt.windows.assigners import Window

_ANY = Session(1)


@dataclass(eq=False)
class SessionAggregation(SlicedAggregation):
    """``session``: how rows belong together. Slices are due in which a session may begin, go on or close."""

    session: Session = _ANY

    @cached_property
    def _record(self) -> RecordOf:
        """The state of one key in a slice, and of its session."""
        return RecordOf({FIRST: Min(), LAST: Max(), **self._lattices})

    @cached_property
    def _open(self) -> Local[OpenSessions]:
        return self._opened(OpenSessions({}))

    def how(self) -> str:
        gap_ms, slice_ms = self.session.gap_ms, self.session.slice_ms
        return f"{super().how()}; sessions with gaps of {gap_ms} ms, in slices of {slice_ms} ms"

    def _refusal(self, tag: str) -> str:
        return (
            f"a {tag} cannot be kept by session: the slices of a session are combined, and it has "
            f"no such operation; use Tumbling or Sliding windows, or another lattice (docs/lattices.md)"
        )

    # --- rows that come -----------------------------------------------------------------------------------------------

    def elements(self, rows: Rows) -> Any:
        return self._key_column(rows), (rows.ts_ms, rows.ts_ms, *self._aggregated(rows))

    def insert(
        self,
        ctx: Context,
        state: Windowed[Any, Any],
        elements: Any,
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None = None,
        origins: Origins | None = None,
    ) -> None:
        super().insert(ctx, state, elements, ts_ms, rows)
        self._mark(ctx, (ts_ms, np.minimum(ts_ms + self.session.gap_ms, MAX_TS_MS - 1)), rows)

    def _first_of_slices(self, times: NDArray[np.int64]) -> NDArray[np.intp]:
        return first_of_each(times // self.session.slice_ms)

    # --- sessions that close ------------------------------------------------------------------------------------------

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The sessions of this shard that a complete slice closes, in the order of key and start."""
        arrived = self._arrived(ctx, state, window)
        names = list(self.names.values())
        closed = ctx[self._open].value.take(arrived, window.end_ms, self.session, self._kept, names)
        count = len(closed.first)
        return Rows(np.full(count, ctx.timestamp_ms), np.arange(count), columns={
            "key": [None] * count if self.key is None else closed.keys,
            "window.start_ms": closed.first, "window.end_ms": closed.last + self.session.gap_ms, **closed.values,
        })  # fmt: skip
