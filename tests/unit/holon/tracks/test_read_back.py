"""How far back windows can be read, and through which end they can therefore be dropped."""

from __future__ import annotations

from typing import Any

import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, UserFunctionError, Window, on_window
from holon.testing import JobTestDriver
from wcrdt.lattices.counters import GCounter
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

Event = dict[str, Any]
SOURCE: Source[Event] = Source("events", Json(Event), timestamp=lambda event: event["ts"])


class OneStage(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling(10))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)


class TwoStages(OneStage):
    of_windows = WCRDT(GCounter(), Tumbling(20), stage=1)

    @on_window(OneStage.count)
    def up(self, window: Window, ctx: Context) -> None:
        self.of_windows.insert(1, window.start_ms)

    @on_window(of_windows)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit(await self.of_windows.window_value(window))


class Awaiting(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling(10))

    async def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        if "read" in event:
            ctx.emit(await self.count.window_value(Window(event["read"], event["read"] + 10)))


def job(process: Any, **options: Any) -> Job:
    return Job("test", SOURCE, process, output="out", **options)


def test_what_every_partition_has_answered_is_droppable() -> None:
    assert job(OneStage).droppable_through((50, 0), 65) == 50


def test_a_stage_that_still_has_to_run_keeps_the_windows_that_it_may_read() -> None:
    assert job(TwoStages).droppable_through((50, 0), 65) == 49
    assert job(TwoStages).droppable_through((50, 1), 65) == 50


def test_read_back_keeps_windows_for_so_long() -> None:
    assert job(OneStage, window_retention_ms=20).droppable_through((50, 0), 65) == 30
    assert job(TwoStages, window_retention_ms=20).droppable_through((50, 0), 65) == 29


def test_an_async_process_keeps_what_its_next_record_may_await() -> None:
    assert job(Awaiting).droppable_through((70, 0), 65) == 65
    assert job(Awaiting, allowed_lateness_ms=5, window_retention_ms=20).droppable_through((70, 0), 65) == 40


def test_after_the_end_of_input_everything_is_droppable() -> None:
    end = (END_OF_TIME_MS, 0)
    assert job(Awaiting, window_retention_ms=20).droppable_through(end, END_OF_TIME_MS) == END_OF_TIME_MS


def test_nothing_is_droppable_before_time_begins() -> None:
    assert (
        job(TwoStages, window_retention_ms=20).droppable_through((BEFORE_TIME_MS, 0), BEFORE_TIME_MS) == BEFORE_TIME_MS
    )


@pytest.mark.parametrize("window_retention_ms", [0, 10, 15])
def test_a_handler_reads_exactly_the_windows_that_are_kept(window_retention_ms: int) -> None:
    """Whatever is dropped after each answered window, a handler gets the value or is refused in advance."""
    read: list[int] = []

    class Reader(OneStage):
        @on_window(OneStage.count)
        async def report(self, window: Window, ctx: Context) -> None:
            start = window.start_ms
            while start >= window.end_ms - 10 - window_retention_ms:
                if start >= 0:
                    read.append(await self.count.window_value(Window(start, start + 10)))
                start -= 10

    made = job(Reader, window_retention_ms=window_retention_ms)
    test = JobTestDriver(made)
    for ts in range(0, 60, 10):
        test.feed(0, {"ts": ts})
        task = test.tasks[0]
        through = made.droppable_through(task.windows.position, task.watermark_ms)
        test.replica.drop_through(through)
        task.drop_through(through)
    assert read and set(read) == {1}
    assert test.replica.open_windows() <= 2 + window_retention_ms // 10


def test_a_window_beyond_read_back_is_refused_with_advice() -> None:
    class Reader(OneStage):
        @on_window(OneStage.count)
        async def report(self, window: Window, ctx: Context) -> None:
            if window.start_ms > 0:
                await self.count.window_value(Window(0, 10))

    test = JobTestDriver(job(Reader, window_retention_ms=9))
    with pytest.raises(
        UserFunctionError, match=r"window \(0, 10\).*window_retention_ms=9.*raise Job.window_retention_ms"
    ):
        test.feed(0, {"ts": 0}, {"ts": 10}, {"ts": 20})


def test_one_record_may_await_the_same_window_twice() -> None:
    class Twice(Awaiting):
        async def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)
            if "read" in event:
                window = Window(event["read"], event["read"] + 10)
                ctx.emit([await self.count.window_value(window), await self.count.window_value(window)])

    test = JobTestDriver(job(Twice), partitions=2)
    test.feed(0, {"ts": 1}, {"ts": 12, "read": 0})
    assert test.waiting() == [0]
    test.feed(1, {"ts": 2}, {"ts": 12})
    assert test.outputs() == [[2, 2]]


def test_an_async_process_cannot_await_what_an_earlier_record_completed() -> None:
    test = JobTestDriver(job(Awaiting))
    with pytest.raises(UserFunctionError, match="window_retention_ms=0"):
        test.feed(0, {"ts": 1}, {"ts": 12}, {"ts": 13, "read": 0})
