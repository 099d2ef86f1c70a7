"""Aggregations by session: rows are inserted into slices, and complete slices make sessions of them.

Slices are a state of all partitions. One partition answers for a key: the key is of its shard. There the complete
slices of the key are put together, and its open session is kept until a slice is complete that goes beyond the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.aggregations import Aggregation
from holon.dataflow.rows import Rows
from holon.dataflow.sessions.objects import FIRST, LAST
from holon.dataflow.sessions.open_sessions import OpenSessions
from holon.dataflow.sessions.shards import Slices, whole
from holon.program.context import Context
from holon.program.function import HandlerScope
from holon.program.states import Local, StateDeclaration, Windowed
from holon.time.units import MAX_TS_MS
from wcrdt import BoolOr, ColumnsOf, Lattice, Max, Min, RecordOf, Session
from wcrdt.windows.assigners import Window

_ANY = Session(1)


@dataclass(eq=False)
class SessionAggregation(Aggregation):
    """``session``: how rows belong together. ``windows`` are its slices.

    Beside the state of slices there is one that marks the slices in which a session may begin, go on or close.
    """

    session: Session = _ANY

    is_parting = True

    @cached_property
    def _record(self) -> RecordOf:
        """The state of one key in a slice, and of its session."""
        return RecordOf({FIRST: Min(), LAST: Max(), **self._lattices})

    @cached_property
    def _sessions(self) -> ColumnsOf[Any, Any, Any]:
        return ColumnsOf(self._record)

    @cached_property
    def _slices(self) -> Slices:
        return Slices()

    def bottom(self) -> Lattice[Any, Any]:
        return self._sessions.bottom()

    def how(self) -> str:
        gap_ms, slice_ms = self.session.gap_ms, self.session.slice_ms
        return f"{super().how()}; sessions with gaps of {gap_ms} ms, in slices of {slice_ms} ms"

    def check(self) -> None:
        super().check()
        for one in self.aggregates.values():
            if not one.lattice.combines:
                raise self.error(
                    f"a {one.lattice.tag} cannot be kept by session: the slices of a session are combined, and it has "
                    f"no such operation; use Tumbling or Sliding windows, or another lattice (docs/lattices.md)"
                )

    # --- states -------------------------------------------------------------------------------------------------------

    @cached_property
    def _due(self) -> Windowed[bool, bool]:
        return self._declared(BoolOr(), f"{self.state}due")

    @cached_property
    def _open(self) -> Local[OpenSessions]:
        empty = OpenSessions({})
        return Local(empty, type=OpenSessions, track="window", stage=self.stage, name=f"{self.state}open")

    def further_states(self) -> Sequence[StateDeclaration]:
        return self._due, self._open

    def answered(self, state: Windowed[Any, Any]) -> tuple[Windowed[Any, Any], HandlerScope]:
        return self._due, "partition"

    # --- rows that come -----------------------------------------------------------------------------------------------

    def elements(self, rows: Rows) -> Any:
        keys = np.zeros(len(rows), np.int64) if self.key is None else self._column("key", self.key, rows)
        return keys, (rows.ts_ms, rows.ts_ms, *self._aggregated(rows))

    def insert(
        self,
        ctx: Context,
        state: Windowed[Any, Any],
        elements: Any,
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        super().insert(ctx, state, elements, ts_ms, rows)
        due = ctx[self._due]
        for times in (ts_ms, np.minimum(ts_ms + self.session.gap_ms, MAX_TS_MS - 1)):
            first = _first_of_slices(times // self.session.slice_ms)
            due.insert_many(np.ones(len(first), np.bool_), times[first], first if rows is None else rows[first])

    # --- sessions that close ------------------------------------------------------------------------------------------

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The sessions of this shard that a complete slice closes, in the order of key and start."""
        found: Any = ctx[state].window_state(window)
        arrived = whole(found) if self.alone else self._slices.shard(found, ctx.partition, ctx.partitions)
        names = list(self.names.values())
        closed = ctx[self._open].value.take(arrived, window.end_ms, self.session, self._sessions, names)
        count = len(closed.first)
        return Rows(np.full(count, ctx.timestamp_ms), np.arange(count), columns={
            "key": [None] * count if self.key is None else closed.keys,
            "window.start_ms": closed.first, "window.end_ms": closed.last + self.session.gap_ms, **closed.values,
        })  # fmt: skip


def _first_of_slices(numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    """The first place of each number."""
    changes = np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1])
    _, first = np.unique(numbers[changes], return_index=True)
    return changes[first]
