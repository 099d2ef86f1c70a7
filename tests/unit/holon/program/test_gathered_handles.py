"""Handles: which elements go without a check to where they are gathered."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.program.gathered_handles import numbers_check
from holon.testing import JobTestDriver
from wcrdt import GCounter, Max, Min, PairOf, Sum

PARTS: list[Any] = [GCounter(), Max(), GCounter(), Sum(), Min()]
NO_NUMBERS = list(map(Decimal, ["NaN", "sNaN", "-Infinity", "1E+5000"]))


@pytest.mark.parametrize("width", [2, 3, 4])
def test_decimals_need_no_check_where_they_are_small_numbers(width: int) -> None:
    are_numbers = numbers_check(PARTS[:width])
    rest = (Decimal("0.1"), 2, Decimal(3))[: width - 1]
    assert width == 2 or not are_numbers((1, Decimal("0.1"), Decimal(2), Decimal(3))[:width]), "the third part counts"
    assert are_numbers((1, *rest)) and not are_numbers((-1, *rest)) and not are_numbers((math.nan, *rest))
    for number in NO_NUMBERS:
        assert not are_numbers((1, number, *rest[1:]))


def test_a_pair_is_checked_as_a_record_is() -> None:
    are_numbers = numbers_check(PairOf(GCounter(), Max()).parts)
    assert are_numbers((0, -1.5)) and not are_numbers((-1, 0)) and not are_numbers((0.5, 0))


class Longest(Max[Any]):
    """The largest length of lists."""

    def fold(self, element: list[int]) -> int:
        return super().fold(len(element))


class Lists(ProcessingFunction[dict[str, int]]):
    longest: WCRDT[Any, Any] = WCRDT(Longest(), Tumbling(10))

    def process(self, event: dict[str, int], ctx: Context) -> None:
        numbers = [1, 2]
        self.longest.insert(numbers, event["ts"])
        numbers.append(3)

    @on_window(longest)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit(await self.longest.window_value(window))


def test_an_element_that_the_function_changes_later_counts_as_it_was() -> None:
    job = Job("lists", Source("events", Json(dict[str, int]), lambda event: event["ts"]), Lists, output="out")
    driver = JobTestDriver(job, 1)
    driver.feed(0, {"ts": 1})
    driver.finish()
    assert driver.outputs() == [2]
