"""Holon's Query 1: the bids of each partition beside the bids of all, for each window (Holon, sections 2.2 and 3.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import WCRDT, Batch, Context, ProcessingFunction, Window, WLocal, on_window
from nexmark.model import WINDOW_MS
from wcrdt import GCounter, Tumbling


class Query1(ProcessingFunction[Any]):
    """The ratio is ``local / global``; both are given, so that nothing is rounded."""

    everywhere = WCRDT(GCounter(), Tumbling(WINDOW_MS))
    here = WLocal(GCounter(), Tumbling(WINDOW_MS))

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        ones = np.ones(len(batch), dtype=np.int64)
        self.everywhere.insert_many(ones, batch.ts_ms)
        self.here.insert_many(ones, batch.ts_ms)

    @on_window(everywhere)
    async def answer(self, window: Window, ctx: Context) -> None:
        local = await self.here.window_value(window)
        total = await self.everywhere.window_value(window)
        ctx.emit({"partition": ctx.partition, "window": window.end_ms, "local": local, "global": total})
