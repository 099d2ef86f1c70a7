"""Handles: which elements go without a check to where they are gathered."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.program.gathered_handles import is_key, numbers_check
from holon.testing import JobTestDriver
from wcrdt import GCounter, Max, Min, PairOf, RecordOf, Sum
from wcrdt.elements import identity, plain
from wcrdt.lattices.exact_sums.decimals import is_small

PARTS: list[Any] = [GCounter(), Max(), GCounter(), Sum(), Min()]
ODD = st.sampled_from([-1, True, None, "1", math.nan, -math.inf, 2**70, (1,), -0.0])
NUMBERS = st.integers(0, 5) | st.floats(0.0, 5.0) | st.decimals(-5, 5, places=2)
NO_NUMBERS = list(map(Decimal, ["NaN", "sNaN", "-Infinity", "1E+5000"]))
ODD |= st.sampled_from([*NO_NUMBERS, Decimal("-0.0"), Decimal("1E-999")])


def is_plain(number: Any, part: Any) -> bool:
    return type(number) in part.kinds or (part.decimals and type(number) is Decimal and is_small(number))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_numbers_that_need_no_check_are_those_that_pass_it(width: int) -> None:
    parts, record = PARTS[:width], RecordOf({str(place): part for place, part in enumerate(PARTS[:width])})
    are_numbers = numbers_check(record.parts)

    @given(element=st.lists(NUMBERS | ODD, min_size=width, max_size=width).map(tuple))
    def holds(element: tuple[Any, ...]) -> None:
        plain_parts = all(is_plain(one, part) for one, part in zip(element, parts, strict=True))
        try:
            record.check(element)
            accepted = True
        except (TypeError, ValueError):
            accepted = False
        assert are_numbers(element) == (plain_parts and accepted)

    holds()
    assert not are_numbers((1,) * (width + 1)) and not are_numbers([1] * width) and not are_numbers(1)


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


@given(st.recursive(st.integers() | st.text(max_size=2) | ODD, lambda inner: st.lists(inner, max_size=3).map(tuple)))
def test_keys_without_a_check_are_their_own_identities(key: Any) -> None:
    if is_key(key):
        assert identity(plain(key)) is key or identity(plain(key)) == key


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
