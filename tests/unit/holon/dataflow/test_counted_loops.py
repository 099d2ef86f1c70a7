"""Loops over ``enumerate``, ``zip``, ``reversed`` and ``range`` of what a record has go by columns, as Python goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from holon import Context, Json, UserFunctionError
from holon.dataflow import Flow
from holon.dataflow.record_functions.followed import followed_sources
from holon.testing import JobTestDriver
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of, record
from tests.unit.holon.dataflow.test_loops import ITEMS

pytestmark = pytest.mark.usefixtures("loops_installed")

RECORDS = [
    record(
        place,
        a=place % 4 - 1,
        t="ab c"[: place % 5],
        items=ITEMS[place % 4],
        nums=list(range(place % 3)),
        tags=["w", "app", "w", "x"][: place % 5],
        floats=[0.5, -1.0, 2.0, 3.25][: place % 5],
        g={name: len(name) + place % 4 for name in ["a", "bc", ""][: place % 4]},
    )
    for place in range(60)
]


def _enumerates(self: Any, event: Any, ctx: Context) -> None:
    for place, item in enumerate(event.items):
        self.sums.insert((item.sku, place), event.ts)
        if place > 1:
            ctx.emit((place, item.price))
    for place, tag in enumerate(event.tags, start=1):
        self.sums.insert((tag, place), event.ts)
    for place, tag in enumerate(event.tags, len(event.nums)):
        self.sums.insert((tag, place), event.ts)


def _zips(self: Any, event: Any, ctx: Context) -> None:
    for tag, value in zip(event.tags, event.floats):  # noqa: B905
        self.sums.insert((tag, value), event.ts)
    for tag, value in zip(event.tags, event.floats, strict=True):
        ctx.emit((tag, value))
    for item, number in zip(event.items, event.nums, strict=False):
        self.sums.insert((item.sku, item.price * number), event.ts)
        for mark in item.marks:
            self.sums.insert((item.sku, mark + number), event.ts)
    for item, letter in zip(event.items, ("x", "y"), strict=False):
        self.seen.insert(item.sku + letter, event.ts)


def _ranges(self: Any, event: Any, ctx: Context) -> None:
    for place in range(len(event.tags)):
        self.sums.insert((event.tags[place], event.floats[place]), event.ts)
    for number in range(event.a):
        self.count.insert(number + 1, event.ts)
    for number in range(event.ts % 5, -event.a, -2):
        ctx.emit((event.t, number))
    for place in range(1, len(event.tags)):
        ctx.emit((event.tags[place - 1], event.tags[place]))


def _reverses(self: Any, event: Any, ctx: Context) -> None:
    for tag in reversed(event.tags):
        self.tags.insert(("add", tag), event.ts)
    for place, item in enumerate(reversed(event.items)):
        ctx.emit((place, item.sku, item.count))
    for number in reversed(range(len(event.nums))):
        ctx.emit(number)


def _combines(self: Any, event: Any, ctx: Context) -> None:
    for place, (tag, value) in enumerate(zip(event.tags, event.floats, strict=False)):
        self.sums.insert((tag, value * place), event.ts)
    for (name, number), tag in zip(event.g.items(), event.tags, strict=False):
        self.sums.insert((name + tag, number), event.ts)
    for place, (name, number) in enumerate(event.g.items()):
        ctx.emit((place, name, number))
    for place, tag in zip(range(3, 9), event.tags, strict=False):
        ctx.emit((place, tag))
    for (place, tag), item in zip(enumerate(event.tags), event.items, strict=False):
        ctx.emit((place, tag, item.note))


def _hands_on(self: Any, event: Any, ctx: Context) -> None:
    total, last = 0.0, "none"
    for place, (item, number) in enumerate(zip(event.items, event.floats, strict=False)):
        total += item.count * number * place
        last = item.sku
    ctx.emit((total, last))


def _reduces(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit(sum(left * right for left, right in zip(event.nums, event.floats, strict=False)))
    ctx.emit(max(event.g.values(), default=0))
    ctx.emit(sum(event.g.values()) + sum(range(event.a)))
    ctx.emit(all(place < 2 for place, _ in enumerate(event.tags)))


def _meets_values_that_are_there(self: Any, event: Any, ctx: Context) -> None:
    for place, value in enumerate((event.a, event.x)):
        for name, number in zip("ab", range(2), strict=True):
            ctx.emit((place, value, name, number))


FOLLOWED = [_enumerates, _zips, _ranges, _reverses, _combines, _hands_on, _reduces, _meets_values_that_are_there]


@pytest.mark.parametrize("process", FOLLOWED)
@pytest.mark.parametrize("cuts", [(), (1, 7, 30)])
def test_counted_loops_go_by_columns_in_the_order_of_python(process: Callable[..., Any], cuts: tuple[int, ...]) -> None:
    found = check_by_columns(job_of(process), RECORDS, cuts)
    assert found["ways"].count(True) >= 2 and "error" not in found


def _zips_strictly(self: Any, event: Any, ctx: Context) -> None:
    for tag, number in zip(event.tags, event.nums, strict=True):
        self.sums.insert((tag, number), event.ts)


def _steps_by_nothing(self: Any, event: Any, ctx: Context) -> None:
    for number in range(0, 9, event.a):
        self.count.insert(number + 1, event.ts)


def _ranges_over_a_float(self: Any, event: Any, ctx: Context) -> None:
    for number in range(event.x):
        self.count.insert(number, event.ts)


def _looks_beyond_the_end(self: Any, event: Any, ctx: Context) -> None:
    for place in range(len(event.tags)):
        self.sums.insert((event.tags[place], event.nums[place]), event.ts)


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize("process", [_zips_strictly, _steps_by_nothing, _ranges_over_a_float, _looks_beyond_the_end])
def test_a_record_whose_loop_fails_leaves_what_it_leaves_alone(process: Any, policy: Any) -> None:
    found = check_by_columns(job_of(process, policy), RECORDS)
    assert ("error" in found) == (policy == "fail")
    if policy == "dead-letter":
        assert found["counts"].dead


def test_a_range_without_end_costs_no_memory() -> None:
    def process(self: Any, event: Any, ctx: Context) -> None:
        for number in range(event.n):
            self.count.insert(24 // (4 - number), event.ts)

    records = [record(place, n=10**15 if place == 20 else 3) for place in range(40)]
    found = check_by_columns(job_of(process, "dead-letter"), records)
    assert found["counts"].dead == 1


def _takes_twice(self: Any, event: Any, ctx: Context) -> None:
    pairs = zip(event.tags, event.floats, strict=False)
    for tag, value in pairs:
        self.sums.insert((tag, value), event.ts)
    for tag, _ in pairs:
        self.seen.insert(tag, event.ts)


def _takes_within(self: Any, event: Any, ctx: Context) -> None:
    tags = enumerate(event.tags)
    for item in event.items:
        for place, _ in tags:
            self.sums.insert((item.sku, place), event.ts)


def _takes_one(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert(next(iter(zip(event.tags, event.nums, strict=False)))[0], event.ts)


def _starts_at_a_float(self: Any, event: Any, ctx: Context) -> None:
    for place, _ in enumerate(event.tags, event.x):
        self.count.insert(place, event.ts)


def _goes_over_a_method(self: Any, event: Any, ctx: Context) -> None:
    for name in event.g.keys:
        self.seen.insert(name, event.ts)


def _reverses_a_view(self: Any, event: Any, ctx: Context) -> None:
    for place, _ in reversed(enumerate(event.tags)):
        self.count.insert(place, event.ts)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (_takes_twice, "over an iterator more than once"),
        (_takes_within, "over an iterator more than once"),
        (_takes_one, "it uses 'next'"),
        (_starts_at_a_float, "from what is no int"),
        (_goes_over_a_method, "over the method 'keys'"),
        (_reverses_a_view, "`reversed` of what is no list"),
    ],
)
def test_iterators_that_are_used_otherwise_get_each_record(process: Callable[..., Any], why: str) -> None:
    (found,) = followed_sources(job_of(process))
    assert found.form is None and why in found.why_not, found.why_not


class _Counts(msgspec.Struct):
    at: int
    n: int
    nums: list[int]
    others: list[int]


COUNTS = [_Counts(place, n, [1, 2, 3][: place % 4], [4, 5]) for place, n in enumerate([0, 3, -1, 7, 10**15, 10**18])]


@pytest.mark.parametrize(
    "function",
    [
        lambda row: any(number > 2 for number in range(row.n)),
        lambda row: sum(range(row.n % 1000)),
        lambda row: [number * 2 for number in range(row.n % 5)],
        lambda row: any(left < right for left, right in zip(row.nums, row.others, strict=True)),
        lambda row: len([left for left, _ in zip(row.nums, row.others, strict=False)]),
    ],
)
def test_flows_stop_where_python_stops(function: Callable[[_Counts], Any]) -> None:
    def of(around: Callable[[Any], Any]) -> Flow:
        flow = Flow("stops")
        flow.source("in", Json(_Counts), time=lambda row: row.at).map(around(function)).sink("out")
        return flow

    followed = of(lambda one: one)
    assert followed.explain()[1].how == "columns"
    found = []
    for flow in (followed, of(partial)):  # what has no code of its own is called for each row
        test = JobTestDriver(flow.job)
        try:
            test.feed(0, *COUNTS)
            test.finish()
        except UserFunctionError as error:
            found.append(str(error))
        else:
            found.append(test.raw_outputs("out"))
    assert found[0] == found[1]
