"""States whose windows take records longer than others: functions see the windows that they have declared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Sliding, Source, Tumbling, Window, WLocal, on_window
from holon.errors import JobError, UserFunctionError
from holon.testing import JobTestDriver
from wcrdt import GCounter


class Click(msgspec.Struct):
    at: int


class Counts(ProcessingFunction[Click]):
    short = WCRDT(GCounter(), Tumbling(10))
    long = WCRDT(GCounter(), Tumbling(10), extra_lateness=30)
    panes = WCRDT(GCounter(), Sliding(20, 5), extra_lateness=17)
    own = WLocal(GCounter(), Tumbling(10), extra_lateness="30ms")

    def process(self, event: Click, ctx: Context) -> None:
        for state in (self.short, self.long, self.panes, self.own):
            state.insert(1, event.at)

    @on_window(short)
    async def _short(self, window: Window, ctx: Context) -> None:
        ctx.emit(["short", *window, ctx.timestamp_ms, await self.short.window_value(window)])

    @on_window(long)
    async def _long(self, window: Window, ctx: Context) -> None:
        read = await self.long.window_value(window), await self.own.window_value(window)
        ctx.emit(["long", *window, ctx.timestamp_ms, *read, self.long.peek(window)])

    @on_window(panes)
    async def _panes(self, window: Window, ctx: Context) -> None:
        assert self.panes.window_state(window).value == await self.panes.window_value(window)
        ctx.emit(["panes", *window, ctx.timestamp_ms, await self.panes.window_value(window)])


def job_of(function: Any) -> Job[Click]:
    source = Source("clicks", Json(Click), timestamp=lambda c: c.at)
    return Job("counts", source, function, output="out", late_records="process")


def test_handlers_see_declared_windows_once_their_lateness_has_passed() -> None:
    driver = JobTestDriver(job_of(Counts))
    seen: list[Any] = []

    def fed(*times: int) -> list[Any]:
        driver.feed(0, *({"at": at} for at in times))
        found = driver.outputs()[len(seen) :]
        seen.extend(found)
        return found

    assert fed(1, 12) == [["short", 0, 10, 9, 1]]
    assert fed(2, 22) == [["short", 10, 20, 19, 1], ["panes", -15, 5, 4, 2]], "as they are complete, one by one"
    assert fed(3, 40) == [
        ["panes", -10, 10, 9, 3],
        ["short", 20, 30, 29, 1],
        ["panes", -5, 15, 14, 4],
        ["panes", 0, 20, 19, 4],
        ["long", 0, 10, 9, 3, 3, 3],
    ]


@pytest.mark.parametrize("kind", [WCRDT, WLocal])
@pytest.mark.parametrize("extra", [-1, 0.5, "long"])
def test_other_durations_are_refused(kind: Any, extra: Any) -> None:
    with pytest.raises(JobError, match="extra_lateness"):
        kind(GCounter(), Tumbling(10), extra_lateness=extra, name="counts")


def test_a_record_that_waits_for_its_own_window_is_told_which_one() -> None:
    class Waits(ProcessingFunction[Click]):
        long = WCRDT(GCounter(), Tumbling(10), extra_lateness=30)

        async def process(self, event: Click, ctx: Context) -> None:
            self.long.insert(1, event.at)
            await self.long.window_value(Window(0, 10))

    told = r"WindowReadDeadlock: .* awaits window \(0, 10\) of 'long'.* has not passed 40 "
    with pytest.raises(UserFunctionError, match=told):
        JobTestDriver(job_of(Waits)).feed(0, {"at": 39})


def test_a_record_reads_a_window_once_its_lateness_has_passed() -> None:
    class Reads(ProcessingFunction[Click]):
        long = WCRDT(GCounter(), Tumbling(10), extra_lateness=30)

        async def process(self, event: Click, ctx: Context) -> None:
            self.long.insert(1, event.at)
            if event.at >= 40:
                ctx.emit([event.at, await self.long.window_value(Window(0, 10))])

    driver = JobTestDriver(job_of(Reads))
    driver.feed(0, {"at": 1}, {"at": 39}, {"at": 2}, {"at": 40})
    assert driver.outputs() == [[40, 2]]
