"""A window that a function asks for and does not await is an error by name, on both tracks."""

from __future__ import annotations

from typing import Any

import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    ProcessingFunction,
    Tumbling,
    UserFunctionError,
    Window,
    WindowNotAwaited,
)
from holon.testing import JobTestDriver
from tests.unit.holon_jobs import Base, Event, feeding, job
from wcrdt import GCounter

FORGOTTEN = r"WindowNotAwaited: {} on partition 0 has requested window \(0, 10\) of 'count' and not awaited it"


@pytest.mark.parametrize("on_error", ["fail", "dead-letter"])
@pytest.mark.parametrize("is_async", [False, True])
def test_process_names_the_window_that_it_has_not_awaited(is_async: bool, on_error: str) -> None:
    class Forgets(Base):
        def process(self, event: Event, ctx: Context) -> None:
            self.count.window_value(Window(0, 10))

    class ForgetsAsync(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            self.count.window_value(Window(0, 10))

    with pytest.raises(UserFunctionError, match=FORGOTTEN.format("process")) as raised:
        feeding(ForgetsAsync if is_async else Forgets, {"ts": 1}, on_error=on_error)
    assert isinstance(raised.value.__cause__, WindowNotAwaited), "no record's fault, so none is set aside"


def test_process_batch_can_await_nothing() -> None:
    class Forgets(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(10))

        def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
            self.count.window_value(Window(0, 10))

    with pytest.raises(UserFunctionError, match=FORGOTTEN.format("process_batch")):
        feeding(Forgets, {"ts": 1})


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_names_the_window_that_it_has_not_awaited(is_async: bool) -> None:
    class Forgets(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            return self.count.window_value(window)

    class ForgetsAsync(Base):
        async def answer(self, window: Window, ctx: Context) -> Any:
            return self.count.window_value(window)

    with pytest.raises(UserFunctionError, match=FORGOTTEN.format("answer")):
        feeding(ForgetsAsync if is_async else Forgets, {"ts": 1}, {"ts": 30})


def test_a_read_may_be_awaited_later_also_after_another_one_that_waits() -> None:
    class Later(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)
            if "start" in event:
                reads = [self.count.window_value(Window(start, start + 10)) for start in (0, 10)]
                ctx.emit([await read for read in reversed(reads)])

        async def answer(self, window: Window, ctx: Context) -> Any:
            ctx.emit(await self.count.window_value(window))

    test = feeding(Later, {"ts": 1}, {"ts": 25, "start": 0}, partitions=2)
    assert test.waiting() == [0]
    test.feed(1, {"ts": 2}, {"ts": 30})
    assert test.waiting() == [] and [0, 2] in test.outputs()


def test_a_read_that_is_forgotten_behind_one_that_waits_is_named() -> None:
    class Forgets(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)
            if "start" in event:
                self.count.window_value(Window(0, 10))
                await self.count.window_value(Window(10, 20))

        async def answer(self, window: Window, ctx: Context) -> Any:
            await self.count.window_value(window)

    test = JobTestDriver(job(Forgets), partitions=2)
    test.feed(0, {"ts": 1}, {"ts": 25, "start": 0})
    assert test.waiting() == [0]
    with pytest.raises(UserFunctionError, match=FORGOTTEN.format("process")):
        test.feed(1, {"ts": 2}, {"ts": 30})


def test_what_a_record_that_failed_has_not_awaited_is_no_fault_of_the_next_one() -> None:
    class Fails(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            if "fail" in event:
                self.count.window_value(Window(0, 10))
                raise ValueError("its own")
            ctx.emit(event["ts"])

    test = feeding(Fails, {"ts": 1, "fail": 1}, {"ts": 2}, on_error="dead-letter")
    assert test.outputs() == [2] and [record["offset"] for record in test.dead()] == [0]
