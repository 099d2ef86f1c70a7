"""A job whose window handlers wait for a file that the environment names."""

from __future__ import annotations

import os
import time
from pathlib import Path

from holon import (
    WCRDT,
    BoundedOutOfOrderness,
    Context,
    Job,
    Json,
    ProcessingFunction,
    Source,
    Tumbling,
    Window,
    on_window,
)
from tests.integration.jobs_mixed import INPUT, Event
from wcrdt import GCounter

GATE = "GATE_OF_THE_WINDOWS"


class Waiting(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling(1))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, event.ts)

    @on_window(count)
    async def answer(self, window: Window, ctx: Context) -> None:
        while not Path(os.environ[GATE]).exists():
            time.sleep(0.01)
        ctx.emit(await self.count.window_value(window))


# No window is complete before the input has ended.
patient = BoundedOutOfOrderness(10**12)
job = Job("waiting", Source(INPUT, Json(Event), lambda event: event.ts, watermarks=patient), Waiting, output="w")
