"""Handlers that raise: under the dead-letter policy nothing of them stays, and the window has a letter."""

from __future__ import annotations

from typing import Any

import pytest

from holon import WCRDT, Context, Local, ProcessingFunction, Tumbling, UserFunctionError, Window, on_window
from holon.testing import JobTestDriver
from tests.unit.holon_jobs import Event, job
from wcrdt import GCounter, MapOf


class Counting(ProcessingFunction[Event]):
    """Counts tens, and sums the counts of twenties; a count of two fails behind all that its handler may do."""

    count = WCRDT(GCounter(), Tumbling(10))
    sums = WCRDT(GCounter(), Tumbling(20), stage=1)
    ends = WCRDT(MapOf(GCounter()), Tumbling(40), stage=1)
    answered = Local[list[int]]([], track="window", stage=0)
    all_counts = Local(0, track="window", stage=0)

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)

    @on_window(count)
    async def up(self, window: Window, ctx: Context) -> None:
        count = await self.count.window_value(window)
        self.sums.insert(count, window.start_ms)
        self.ends.insert((window.end_ms, count), window.start_ms)
        self.sums.insert(count, window.start_ms - 40)  # answered already, or no window of this job
        self.answered.value.append(window.end_ms)
        self.all_counts.value += count
        ctx.emit([window.end_ms, count, self.all_counts.value, list(self.answered.value)])
        ctx.emit_nondeterministic(window.end_ms)
        ctx.emit_dead(window.end_ms, reason="beside")
        if count == 2:
            raise ArithmeticError("two")

    @on_window(sums)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.end_ms, await self.sums.window_value(window)])

    @on_window(ends)
    async def show(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.end_ms, await self.ends.window_value(window)])


RECORDS = [{"ts": ts} for ts in (1, 11, 12, 21, 22, 23, 31, 41, 42)]
"""Counts: 1, 2, 3, 1 and 2."""
EXPECTED = [[10, 1, 1, [10]], [20, 1], [30, 3, 4, [10, 30]], [40, 1, 5, [10, 30, 40]], [40, 4]]
"""Results but those of windows of forty."""


def driver(function: type[ProcessingFunction[Any]], *, buries: bool = True) -> JobTestDriver:
    return JobTestDriver(job(function, on_error="dead-letter" if buries else "fail"))


def test_nothing_of_a_handler_that_raises_stays() -> None:
    test = driver(Counting)
    test.feed(0, *RECORDS)
    test.finish()
    ends = [[40, {"10": 1, "30": 3, "40": 1}]]
    assert [result for result in test.outputs() if result not in ends] == EXPECTED
    assert test.outputs("unstable") == [10, 30, 40]
    assert test.counts.late_inserts == 3
    letters = [(letter["window"], letter["number"], letter["step"]) for letter in test.dead()]
    assert letters == [
        ([0, 10], 0, ""),
        ([10, 20], 0, "up"),
        ([20, 30], 0, ""),
        ([30, 40], 0, ""),
        ([40, 50], 0, "up"),
    ]


def test_the_letter_has_handler_window_exception_and_the_users_frames() -> None:
    test = driver(Counting)
    test.feed(0, *RECORDS[:3])
    test.finish()
    letter = test.dead()[1]
    assert (letter["step"], letter["window"], letter["offset"]) == ("up", [10, 20], -1)
    assert letter["reason"].startswith("the handler raised ArithmeticError: two\nTraceback (most recent call last):")
    assert letter["reason"].count("File ") == 1 and f'File "{__file__}"' in letter["reason"]


def test_it_is_the_same_wherever_the_partition_fails() -> None:
    wanted = driver(Counting)
    wanted.feed(0, *RECORDS)
    wanted.finish()
    for at in range(len(RECORDS) + 1):
        test = driver(Counting)
        for number, record in enumerate(RECORDS):
            if number == at:
                test.checkpoint(0)
            test.feed(0, record)
        test.fail(0)
        test.finish()
        for output in ("main", "dead"):
            assert test.raw_outputs(output) == wanted.raw_outputs(output)


def test_the_job_stops_by_default_and_at_a_misuse_of_holon() -> None:
    with pytest.raises(UserFunctionError, match=r"ArithmeticError: two on partition 0 at window \[10, 20\) in up"):
        test = driver(Counting, buries=False)
        test.feed(0, *RECORDS)

    class Misuses(Counting):
        @on_window(Counting.count)
        def up(self, window: Window, ctx: Context) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.count.insert(1, window.start_ms)

    with pytest.raises(UserFunctionError, match="TrackError"):
        test = driver(Misuses)
        test.feed(0, *RECORDS)


def test_a_delta_behind_such_a_handler_has_all_that_others_lack() -> None:
    """Windows that were written before it are sent as a whole then, so those of another partition come to the same."""
    test = JobTestDriver(driver(Counting).job, partitions=2)
    test.feed(0, *RECORDS)
    test.feed(1, *({"ts": ts} for ts in (1, 2, 3, 21, 41)))
    test.finish()
    own = test.tasks[0].scope.answers[0].contributions
    there = test.replica.slots[0].stages[0].contributions
    assert {name: {w: v.to_wire() for w, v in windows.items()} for name, windows in own.items()} == {
        name: {w: v.to_wire() for w, v in windows.items()} for name, windows in there.items()
    }
