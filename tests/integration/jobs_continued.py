"""Windows of 10 s, each with its count and the total so far, which the window track keeps."""

from __future__ import annotations

from typing import Any

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, on_window
from wcrdt import GCounter

Event = dict[str, Any]


class Counts(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling.of(seconds=10))
    total = Local(0, track="window")

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, event["ts"])

    @on_window(count)
    async def report(self, window: Window, ctx: Context) -> None:
        count = await self.count.window_value(window)
        self.total.value += count
        if ctx.partition == 0:
            ctx.emit({"start_ms": window.start_ms, "count": count, "total": self.total.value})


job = Job("continued", Source("later", Json(Event), timestamp=lambda event: event["ts"]), Counts, output="later-counts")
