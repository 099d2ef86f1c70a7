"""A job whose window handlers wait for a file that the environment names, and how other code waits for it."""

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


def wait_at_gate() -> None:
    """Leave a file that says that this process has come, and wait for the one that the environment names, if any."""
    if GATE not in os.environ:
        return
    gate = Path(os.environ[GATE])
    gate.with_suffix(f".{os.getpid()}").touch()
    while not gate.exists():
        time.sleep(0.01)


def at_gate(gate: Path) -> set[int]:
    """The processes that have come to it."""
    return {int(path.suffix[1:]) for path in gate.parent.glob(f"{gate.name}.*")}


class Waiting(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling(1))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, event.ts)

    @on_window(count)
    async def answer(self, window: Window, ctx: Context) -> None:
        wait_at_gate()
        ctx.emit(await self.count.window_value(window))


# No window is complete before the input has ended.
patient = BoundedOutOfOrderness(10**12)
job = Job("waiting", Source(INPUT, Json(Event), lambda event: event.ts, watermarks=patient), Waiting, output="w")
