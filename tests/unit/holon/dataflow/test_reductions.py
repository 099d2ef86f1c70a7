"""Sums, extremes and questions about the items of a record go by columns, with the values that Python gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from holon import Context
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.record_functions.followed import followed_sources
from holon.dataflow.rows import Rows, columns_of
from holon.dataflow.steps import followed
from tests.laws.row_functions import outcome
from tests.unit.holon.dataflow.followed_records import Event, check_by_columns, job_of, record
from tests.unit.holon.dataflow.test_loops import RECORDS

pytestmark = pytest.mark.usefixtures("loops_installed")


def _sums(self: Any, event: Any, ctx: Context) -> None:
    total = sum(item.price * item.count for item in event.items)
    self.sums.insert((event.t, total), event.ts)
    self.count.insert(sum(item.count for item in event.items if item.sku != "a"), event.ts)
    self.count.insert(sum(1 for tag in event.tags if tag == "w"), event.ts)


def _extremes(self: Any, event: Any, ctx: Context) -> None:
    if event.items:
        self.top.insert(max(item.price for item in event.items), event.ts)
        self.low.insert(min(item.count if item.note is None else 9 for item in event.items), event.ts)
    self.top.insert(max(event.floats, default=0.5), event.ts)


def _asks(self: Any, event: Any, ctx: Context) -> None:
    if any(item.price > 1.0 for item in event.items) and all(number < 2 for number in event.nums):
        self.seen.insert(event.t, event.ts)
    elif any(event.nums):
        self.seen.insert("any", event.ts)
    self.count.insert(int(all(len(word) < 4 for word in event.t.split())), event.ts)


def _nested(self: Any, event: Any, ctx: Context) -> None:
    marks = sum(mark * item.count for item in event.items for mark in item.marks)
    self.sums.insert((event.t, marks), event.ts)
    for item in event.items:
        self.sums.insert((item.sku, sum(item.marks, event.a)), event.ts)
        if any(other.price < item.price for other in event.items):
            self.seen.insert(item.sku, event.ts)


def _uses_names(self: Any, event: Any, ctx: Context) -> None:
    rate = event.x / 2
    total = sum(item.price * rate + event.a for item in event.items)
    self.sums.insert((f"{total:.1f}", total), event.ts)


def _comprehensions(self: Any, event: Any, ctx: Context) -> None:
    prices = [item.price for item in event.items if item.count > 1]
    self.count.insert(len(prices), event.ts)
    if any([price > 1.0 for price in event.floats]):  # noqa: C419 (that is the case)
        self.sums.insert((event.t, sum(prices)), event.ts)
    for item in event.items:
        self.count.insert(len([mark for mark in item.marks if mark < item.count]), event.ts)


FOLLOWED = [_comprehensions, _sums, _extremes, _asks, _nested, _uses_names]


@pytest.mark.parametrize("process", FOLLOWED)
@pytest.mark.parametrize("cuts", [(), (1, 7, 30)])
def test_reductions_go_by_columns(process: Callable[..., Any], cuts: tuple[int, ...]) -> None:
    found = check_by_columns(job_of(process), RECORDS, cuts)
    assert found["ways"].count(True) >= 2 and "error" not in found


def _fails_at_no_items(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(max(item.price for item in event.items), event.ts)


def _fails_at_an_item(self: Any, event: Any, ctx: Context) -> None:
    self.sums.insert((event.t, sum(6 // item.count for item in event.items)), event.ts)


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize("process", [_fails_at_no_items, _fails_at_an_item])
def test_a_record_that_fails_in_a_reduction(process: Any, policy: Any) -> None:
    found = check_by_columns(job_of(process, policy), RECORDS)
    assert ("error" in found) == (policy == "fail")


def _with_a_key(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(max((item for item in event.items), key=lambda item: item.price), event.ts)


def _lists(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(len({item.sku for item in event.items}), event.ts)


def _inserts_within(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(sum(self.seen.insert(item.sku, event.ts) or 1 for item in event.items), event.ts)


def _takes_it_elsewhere(self: Any, event: Any, ctx: Context) -> None:
    items = (item.count for item in event.items)
    for _ in event.nums:
        self.count.insert(sum(items), event.ts)


def _catches(self: Any, event: Any, ctx: Context) -> None:
    try:
        value = max(event.floats)
    except ValueError:
        value = 0.0
    self.top.insert(value, event.ts)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (_with_a_key, "`max` with key="),
        (_lists, "a comprehension of a set"),
        (_inserts_within, "what insert gives"),
        (_takes_it_elsewhere, "within another loop"),
        (_catches, "within try"),
    ],
)
def test_other_uses_of_items_are_called_for_each_record(process: Callable[..., Any], why: str) -> None:
    (found,) = followed_sources(job_of(process))
    assert found.form is None and why in found.why_not


BIG = 2**62
LISTS: list[dict[str, Any]] = [
    {"nums": [], "floats": []},
    {"nums": [BIG, BIG], "floats": [0.1] * 10},
    {"nums": [-BIG, -BIG, -1], "floats": [1e16, 1.0, -1e16]},
    {"nums": [1, 0, 3], "floats": [-0.0]},
    {"nums": [0, 0], "floats": [float("inf"), float("-inf"), 1.0]},
    {"nums": [7], "floats": [0.0, -0.0, 0.0]},
    {"nums": [2**63 - 1, 1], "floats": [float("nan"), 1.0, 2.0]},
    {"nums": [5, 0, 2], "floats": [1.0, float("nan"), -0.0]},
    {"nums": [2], "floats": [-0.0, 0.0]},
]
FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda row: sum(row.nums),
    lambda row: sum(row.floats),
    lambda row: sum(row.floats, 0.5),
    lambda row: sum(one * 0.1 for one in row.floats),
    lambda row: sum(one if one > 0 else 1.5 for one in row.nums),
    lambda row: max(row.nums),
    lambda row: max(row.floats),
    lambda row: min(row.floats),
    lambda row: min((one for one in row.floats if one < 5), default=row.a),
    lambda row: any(row.nums),
    lambda row: all(row.floats),
    lambda row: any(6 // one > 1 for one in row.nums),
    lambda row: all(6 // one < 3 for one in row.nums),
    lambda row: any([6 // one > 1 for one in row.nums]),  # noqa: C419 (Python makes the whole list)
    lambda row: len([one for one in row.nums if 6 // one]),
    lambda row: any(one > 1 and 6 // (one - 5) for one in row.nums),
    lambda row: sum(len(word) for word in row.t.split()),
    lambda row: max(word.upper() for word in row.t.split()),
    lambda row: sum(first * second for first in row.nums for second in row.nums if first != second),
    lambda row: max((one, row.a) for one in row.nums),
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
@pytest.mark.parametrize("chosen", [(3, 4, 5), (5,), tuple(range(1, len(LISTS))), tuple(range(len(LISTS)))])
def test_a_reduction_of_rows_gives_what_python_gives(number: int, chosen: tuple[int, ...]) -> None:
    """Of rows that do not fail, together and alone; a row that fails does so alone, and fails them all."""
    function = FUNCTIONS[number]
    rows = [Event(0, place, 0.5, True, f"a b{place}", **LISTS[place]) for place in chosen]
    decision, why_not = followed(function, Event, checked=True)
    assert decision is not None, why_not

    def by_columns(some: list[Event]) -> list[str]:
        columns = Rows(*[_nothing(len(some))] * 2, columns=columns_of(Event, some), struct=Event)
        return list(map(repr, as_list(column_of(decision, columns))))

    expected = [outcome(function, row) for row in rows]
    good = [row for row, one in zip(rows, expected, strict=True) if not one.startswith("raises")]
    assert by_columns(good) == [one for one in expected if not one.startswith("raises")]
    for row, one in zip(rows, expected, strict=True):
        assert outcome(lambda alone: _Shown(by_columns([alone])[0]), row) == one
    first = next((one for one in expected if one.startswith("raises")), None)
    if first is not None:
        assert outcome(by_columns, rows) == first


class _Shown(str):
    __repr__ = str.__str__


def _nothing(count: int) -> Any:
    return np.zeros(count, np.int64)


def test_a_sum_of_many_items_is_that_of_python() -> None:
    rows = [record(place, floats=[0.1 * one for one in range(place * 40)]) for place in range(9)]

    def process(self: Any, event: Any, ctx: Context) -> None:
        self.sums.insert((event.t, sum(event.floats)), event.ts)
        self.top.insert(max(event.floats, default=-1.0), event.ts)

    assert all(check_by_columns(job_of(process), rows)["ways"])
