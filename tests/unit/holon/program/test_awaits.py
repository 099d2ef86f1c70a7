"""Safe reads: those that cannot complete, what a partition does while it waits, and promises."""

from __future__ import annotations

from typing import Any

import pytest

from holon import (
    WCRDT,
    Context,
    GlobalWindow,
    ManualWatermarks,
    ProcessingFunction,
    UserFunctionError,
    Window,
)
from holon.testing import JobTestDriver
from tests.unit.holon_jobs import Base, Event, feeding, job
from wcrdt import GCounter

# --- reads that cannot complete ---------------------------------------------------------------------------------------


class Reader(Base):
    async def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        self.mine.insert(1, ctx.timestamp_ms)
        if "start" in event:
            window = Window(event["start"], event["start"] + 10)
            ctx.emit([await self.count.window_value(window), await self.mine.window_value(window)])


def test_awaiting_a_window_that_the_partition_itself_keeps_open_is_an_error() -> None:
    with pytest.raises(
        UserFunctionError,
        match=r"WindowReadDeadlock: partition 0 awaits window \(0, 10\) of 'count', but its own watermark 9 has not",
    ):
        feeding(Reader, {"ts": 9, "start": 0}, partitions=2)


def test_awaiting_the_end_of_time_is_an_error() -> None:
    class Forever(ProcessingFunction[Event]):
        all = WCRDT(GCounter(), GlobalWindow())

        async def process(self, event: Event, ctx: Context) -> None:
            await self.all.window_value(GlobalWindow.WINDOW)

    with pytest.raises(UserFunctionError, match="WindowReadDeadlock"):
        feeding(Forever, {"ts": 1})


def test_a_handler_cannot_await_a_window_that_is_answered_after_it() -> None:
    class Wrong(Base):
        async def answer(self, window: Window, ctx: Context) -> Any:
            await self.count.window_value(Window(10, 20))

    with pytest.raises(UserFunctionError, match=r"which is answered later.*put it in on_window of that state"):
        feeding(Wrong, {"ts": 1}, {"ts": 30})


def test_a_handler_cannot_await_a_later_stage() -> None:
    class Wrong(Base):
        async def answer(self, window: Window, ctx: Context) -> Any:
            await self.later.window_value(window)

    with pytest.raises(UserFunctionError, match=r"of 'later' \(stage 1\), which is answered later"):
        feeding(Wrong, {"ts": 1}, {"ts": 30})


@pytest.mark.parametrize("how", ["process", "handler"])
def test_only_windows_can_be_awaited(how: str) -> None:
    class Sleep:
        def __await__(self) -> Any:
            yield "a timer"

    class Sleepy(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)
            if how == "process":
                await Sleep()

        async def answer(self, window: Window, ctx: Context) -> Any:
            await Sleep()

    with pytest.raises(UserFunctionError, match="may only await window_value, not 'a timer'"):
        feeding(Sleepy, {"ts": 1}, {"ts": 30})


# --- what an await does -----------------------------------------------------------------------------------------------


def test_a_partition_that_awaits_stands_still_and_goes_on_where_it_was() -> None:
    test = feeding(Reader, {"ts": 1}, {"ts": 12, "start": 0}, {"ts": 25, "start": 10}, partitions=2)
    assert test.waiting() == [0] and test.outputs() == []
    test.feed(1, {"ts": 2}, {"ts": 11})
    assert test.waiting() == [0] and test.outputs() == [[2, 1]]
    test.feed(1, {"ts": 20})
    assert test.waiting() == [] and test.outputs() == [[2, 1], [2, 1]]
    assert test.counts.accepted == 6


def test_two_partitions_that_await_each_other_both_go_on() -> None:
    test = JobTestDriver(job(Reader), partitions=2)
    test.feed(0, {"ts": 1}, {"ts": 12, "start": 0})
    test.feed(1, {"ts": 2}, {"ts": 13, "start": 0})
    assert test.waiting() == [] and test.outputs() == [[2, 1], [2, 1]]


def test_the_end_of_the_input_waits_for_what_awaits() -> None:
    test = feeding(Reader, {"ts": 1}, {"ts": 12, "start": 0}, {"ts": 13}, partitions=2)
    test.finish()
    assert test.outputs() == [[1, 1]]
    assert test.counts.late == 0


def test_an_await_after_a_punctuation_at_the_same_offset_is_seen_by_the_others() -> None:
    test = JobTestDriver(job(Reader), partitions=2)
    test.feed(0, {"ts": 1})
    test.advance_watermark(0, 5)
    test.feed(0, {"ts": 12, "start": 0})
    test.feed(1, {"ts": 12, "start": 0})
    assert test.waiting() == [] and sorted(test.outputs()) == [[1, 0], [1, 1]]


def test_what_a_record_inserts_after_its_await_cannot_reach_the_window_that_it_read() -> None:
    class Greedy(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            taken = [self.count.insert(1, 5)]
            if ctx.timestamp_ms >= 10:
                ctx.emit(await self.count.window_value(Window(0, 10)))
                taken.append(self.count.insert(1, 5))
            ctx.emit(taken)

    test = feeding(Greedy, {"ts": 1}, {"ts": 10})
    assert test.outputs() == [[True], 2, [True, False]]


def test_a_failure_after_an_await_stops_the_job_also_with_dead_letters() -> None:
    class Fails(Reader):
        async def process(self, event: Event, ctx: Context) -> None:
            await super().process(event, ctx)
            if event.get("fail"):
                raise ValueError("too late to undo")

    test = feeding(Fails, {"ts": 1, "fail": 1}, {"ts": 12, "start": 0, "fail": 1}, partitions=2, on_error="dead-letter")
    assert [record["offset"] for record in test.dead()] == [0]
    with pytest.raises(UserFunctionError, match="too late to undo on partition 0 at offset 1"):
        test.feed(1, {"ts": 20})


def test_whether_the_awaited_window_was_there_already_makes_no_difference_to_a_failure() -> None:
    class Fails(Reader):
        async def process(self, event: Event, ctx: Context) -> None:
            await super().process(event, ctx)
            if "start" in event:
                raise ValueError("too late to undo")

    test = feeding(Fails, {"ts": 1}, {"ts": 12}, on_error="dead-letter", window_retention_ms=100)
    assert test.replica.is_complete("count", Window(0, 10))
    with pytest.raises(UserFunctionError, match="too late to undo on partition 0 at offset 2"):
        test.feed(0, {"ts": 13, "start": 0})


def test_a_task_that_is_told_of_the_end_while_it_waits_ends_after_its_last_record() -> None:
    test = feeding(Reader, {"ts": 1}, {"ts": 12, "start": 0}, {"ts": 13}, partitions=2)
    test.tasks[0].end()
    assert not test.tasks[0].records.ended
    test.feed(1, {"ts": 20})
    assert test.tasks[0].records.ended and test.outputs() == [[1, 1]]
    assert test.tasks[0].counts.accepted == 3


# --- watermarks -------------------------------------------------------------------------------------------------------


def test_a_promise_holds_from_the_next_record_on() -> None:
    class Promises(Base):
        def process(self, event: Event, ctx: Context) -> None:
            before = ctx.watermark_ms
            self.count.increment_watermark(event["ts"] + 5)
            ctx.emit([self.count.insert(1, ctx.timestamp_ms), max(before, -1), max(ctx.watermark_ms, -1)])

    test = feeding(Promises, {"ts": 7}, {"ts": 8}, {"ts": 12}, watermarks=ManualWatermarks())
    assert test.outputs() == [[True, -1, -1], [True, 12, 12]]
    assert [record["offset"] for record in test.late()] == [1]
    assert test.frontier_ms == 17


@pytest.mark.parametrize("ts", [2**53, 1.5])
def test_a_promise_must_be_a_time(ts: Any) -> None:
    class Promises(Base):
        def process(self, event: Event, ctx: Context) -> None:
            self.count.increment_watermark(ts)

    with pytest.raises(UserFunctionError, match="increment_watermark: "):
        feeding(Promises, {"ts": 7})


@pytest.mark.parametrize(("ts", "error"), [(2**62, "ValueError"), (0.5, "TypeError"), ("1", "TypeError")])
def test_inserting_at_what_is_no_time_is_an_error(ts: Any, error: str) -> None:
    class Inserts(Base):
        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ts)

    with pytest.raises(UserFunctionError, match=f"{error}: count: "):
        feeding(Inserts, {"ts": 7})
