"""The windowed queries of the benchmark with windows of any size, one job and one pair of topics for each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holon import WCRDT, Batch, Context, Job, ProcessingFunction, Source, Window, WLocal, on_window
from nexmark.queries import NexmarkColumns, bids
from wcrdt import GCounter, Max, RecordOf, Tumbling


def highest(window_ms: int) -> type[ProcessingFunction[Any]]:
    """As ``nexmark.queries.highest.Q7Max``."""
    assigner = Tumbling(window_ms)

    class WindowedMax(ProcessingFunction[Any]):
        """Highest price and number of bids of each window."""

        best = WCRDT(RecordOf(count=GCounter(), highest=Max()), assigner)

        def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
            self.best.insert_many((np.ones(len(batch), dtype=np.int64), batch["bid.price"]), batch.ts_ms)

        @on_window(best, scope="global")
        async def answer(self, window: Window, ctx: Context) -> None:
            found = await self.best.window_value(window)
            ctx.emit({"window_end": window.end_ms, "max_price": found["highest"], "bids": found["count"]})

    return WindowedMax


def ratio(window_ms: int) -> type[ProcessingFunction[Any]]:
    """As ``nexmark.queries.ratio.Query1``."""
    assigner = Tumbling(window_ms)

    class Ratio(ProcessingFunction[Any]):
        """The bids of each partition beside the bids of all (Holon, section 3.2)."""

        everywhere = WCRDT(GCounter(), assigner)
        here = WLocal(GCounter(), assigner)

        def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
            ones = np.ones(len(batch), dtype=np.int64)
            self.everywhere.insert_many(ones, batch.ts_ms)
            self.here.insert_many(ones, batch.ts_ms)

        @on_window(everywhere)
        async def answer(self, window: Window, ctx: Context) -> None:
            local = await self.here.window_value(window)
            total = await self.everywhere.window_value(window)
            ctx.emit({"partition": ctx.partition, "window": window.end_ms, "local": local, "global": total})

    return Ratio


MAKERS: dict[str, tuple[Callable[[int], type[ProcessingFunction[Any]]], NexmarkColumns]] = {
    "q7max": (highest, NexmarkColumns({"price": int})),
    "query1": (ratio, NexmarkColumns()),
}


def input_topic(run: int) -> str:
    """Where the events of a run are."""
    return f"nexmark-latency-{run}"


def windowed_job(query: str, window_ms: int, run: int) -> Job:
    """The job of a run; ``run`` is a number that no other run on this log has."""
    make, columns = MAKERS[query]
    source = Source(input_topic(run), columns, timestamp="time_ms", filter=bids)
    name = f"{query}-latency-{run}"
    return Job(name, source, make(window_ms), output=name)


def q7max(window_ms: int, run: int) -> Job:
    """For ``MODULE:JOB?window_ms=100&run=1``."""
    return windowed_job("q7max", window_ms, run)


def query1(window_ms: int, run: int) -> Job:
    """For ``MODULE:JOB?window_ms=100&run=1``."""
    return windowed_job("query1", window_ms, run)
