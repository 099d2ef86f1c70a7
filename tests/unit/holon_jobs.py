"""Small jobs that several tests of the API build on."""

from __future__ import annotations

from typing import Any

import msgspec

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, WLocal, on_window
from holon.testing import JobTestDriver
from wcrdt import GCounter

Event = dict[str, Any]


def job(process: Any, **options: Any) -> Job[Any]:
    watermarks = {"watermarks": options.pop("watermarks")} if "watermarks" in options else {}
    source = Source("events", Json(Event), lambda event: event["ts"], **watermarks)
    return Job("test", source, process, output="out", **options)


def feeding(process: Any, *records: Event, partitions: int = 1, **options: Any) -> JobTestDriver:
    test = JobTestDriver(job(process, **options), partitions)
    test.feed(0, *records)
    return test


class Base(ProcessingFunction[Event]):
    """Per record: ``do`` names a method to call."""

    count = WCRDT(GCounter(), Tumbling(10))
    mine = WLocal(GCounter(), Tumbling(10))
    later = WCRDT(GCounter(), Tumbling(10), stage=1)
    kept = Local(0)
    answered = Local(0, track="window")

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        self.mine.insert(1, ctx.timestamp_ms)
        if "do" in event:
            getattr(self, event["do"])(ctx)

    @on_window(count)
    def answer(self, window: Window, ctx: Context) -> Any:
        return None


class Reading(msgspec.Struct):
    """For columns."""

    ts: int
    at: str = ""
    level: float = 0.0
    maybe: int | None = None
