"""q5: the auctions with the most bids in each sliding window, over all partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import WCRDT, Assigner, Batch, Context, ProcessingFunction, Window, on_window
from nexmark.queries.counts import Counted, KeyCounts, added
from wcrdt import BoolOr, Sliding, Tumbling

SIZE_MS = 10_000
SLIDE_MS = 2_000
READ_BACK_MS = SIZE_MS - SLIDE_MS
"""How long before a window's end its first slice ends."""

WINDOWS: Assigner = Sliding(SIZE_MS, SLIDE_MS)
SLICES: Assigner = Tumbling(SLIDE_MS)


class Hot(ProcessingFunction[Any]):
    """Bids are counted once, in slices as long as the slide; a window adds up the five slices that it is made of.

    A bid whose slice has ended may still be in time for windows that have not. Such ``stragglers`` are counted for each
    of these, so that a record counts in exactly the windows that take it. ``open``: which windows have bids at all.
    """

    slices = WCRDT(KeyCounts(), SLICES)
    stragglers = WCRDT(KeyCounts(), WINDOWS)
    open = WCRDT(BoolOr(), WINDOWS)

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        auctions = batch["bid.auction"]
        times = batch.ts_ms
        for _, rows in SLICES.split(times):
            rows = np.arange(len(times))[rows] if isinstance(rows, slice) else rows
            earliest = rows[:1]  # watermarks ascend, so it finds the most windows open
            self.open.insert_many(np.ones(1, dtype=np.bool_), times[earliest], rows=earliest)
            late = self.slices.insert_many(auctions[rows], times[rows], rows=rows)
            if late:  # for the same reason, the last ones
                rows = rows[-late:]
                self.stragglers.insert_many(auctions[rows], times[rows], rows=rows)

    @on_window(open, scope="global")
    async def answer(self, window: Window, ctx: Context) -> None:
        parts = [Counted(*await self.stragglers.window_value(window))]
        for start_ms in range(window.start_ms, window.end_ms, SLIDE_MS):
            parts.append(Counted(*await self.slices.window_value(Window(start_ms, start_ms + SLIDE_MS))))
        auctions, counts = added(parts)
        most = int(counts.max())
        for auction in auctions[counts == most].tolist():
            ctx.emit({"auction": auction, "num": most, "window_end": window.end_ms})
