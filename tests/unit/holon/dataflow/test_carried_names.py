"""Names that turns of a loop hand on (``total += item.price``) are followed, with the values of Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from holon import Context, Json
from holon.dataflow import Flow
from holon.dataflow.following.loops import carrying
from holon.dataflow.record_functions.followed import followed_sources
from holon.testing import JobTestDriver
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of, record

pytestmark = pytest.mark.usefixtures("loops_installed")

PRICES = [0.1, 0.2, 1e16, 1.0, -1e16, 0.3, -0.0]
RECORDS = [
    record(
        place,
        a=place % 4,
        t=["the cat", "", "a b c", "dog 7"][place % 4],
        items=[
            {"sku": "abc"[(place + n) % 3], "price": PRICES[(place * n) % 7], "count": (place * n) % 5 - 1}
            for n in range(place % 6)
        ],
        tags=["7", "x", "8"][: place % 4],
        nums=[2**62, 2**62, -1, 3][: place % 5],
        g={"a": place, "b": 1},
    )
    for place in range(90)
]


def _adds(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for item in event.items:
        total += item.price * item.count
    self.sums.insert((event.t, total), event.ts)
    ctx.emit({"total": total, "at": event.ts})


def _counts(self: Any, event: Any, ctx: Context) -> None:
    number, total = 0, 0
    for item in event.items:
        if item.count > 1:
            number += 1
            total += item.price
    ctx.emit((number, total))


def _beyond_64_bits(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    product = 1
    for one in event.nums:
        total += one
        product = product * one
    ctx.emit((str(total), str(product)))


def _best(self: Any, event: Any, ctx: Context) -> None:
    best = None
    for item in event.items:
        if best is None or item.price > best:
            best = item.price
    if best is not None:
        self.top.insert(best, event.ts)
    ctx.emit((event.t, best))


def _runs(self: Any, event: Any, ctx: Context) -> None:
    """Each turn uses what the ones before have left."""
    total = 0
    for item in event.items:
        total += item.count
        ctx.emit((item.sku, total))
        if total > 3:
            self.sums.insert((item.sku, total), event.ts)


def _nested(self: Any, event: Any, ctx: Context) -> None:
    total = event.a
    for item in event.items:
        part = 0
        for one in event.nums:
            total += 1
            part += one * item.count
        total += part // 2**60
    ctx.emit(total)


def _tries(self: Any, event: Any, ctx: Context) -> None:
    right, wrong = 0, 0
    for tag in event.tags:
        try:
            right += int(tag)
        except ValueError:
            wrong += 1
    ctx.emit((right, wrong))


def _swaps(self: Any, event: Any, ctx: Context) -> None:
    one, other = 0, 0.5
    for item in event.items:
        one, other = other, one + item.count
    ctx.emit((one, other))


def _two_loops(self: Any, event: Any, ctx: Context) -> None:
    size = 0
    for word in event.t.split():
        size += len(word)
    for name, value in event.g.items():
        if name == "a":
            size -= value
    ctx.emit(size)


def _remembers(self: Any, event: Any, ctx: Context) -> None:
    last = ""
    for tag in event.tags:
        if tag == "x":
            self.seen.insert(last, event.ts)
        last = tag


def _uses_the_last(self: Any, event: Any, ctx: Context) -> None:
    word = ""
    for word in event.t.split():  # noqa: B007 (its last value is used)
        self.seen.insert("any", event.ts)
    self.seen.insert(word, event.ts)


def _fails(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for item in event.items:
        total += 10 // (item.count - 3)
    ctx.emit(total)


def _is_not_used(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for item in event.items:
        total += 10 // (item.count - 3)
    ctx.emit(event.a)


def _computes_besides(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for item in event.items:
        part = 10 // (item.count - 3)  # noqa: F841 (it fails all the same)
        total += 1
    ctx.emit(total)


def _continues(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for item in event.items:
        if item.sku == "a":
            continue
        total = max(total, item.price)
    ctx.emit(total)


BODIES = [_adds, _counts, _beyond_64_bits, _best, _runs, _nested, _tries, _swaps, _two_loops, _remembers,
          _uses_the_last, _continues]  # fmt: skip


@pytest.mark.parametrize("few", [0, 16, 1000])
@pytest.mark.parametrize("process", BODIES)
def test_names_that_are_handed_on_have_the_values_of_python(
    process: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "FEW", few)
    found = check_by_columns(job_of(process), RECORDS, [40])
    assert all(found["ways"]) and found["outputs"]


@pytest.mark.parametrize("process", [_fails, _is_not_used, _computes_besides])
@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
def test_a_turn_that_fails_fails_for_its_record(process: Any, policy: Any) -> None:
    (found,) = followed_sources(job_of(process, policy))
    assert found.form is not None
    check_by_columns(job_of(process, policy), RECORDS, [40])


class Item(msgspec.Struct):
    price: float
    n: int


class Order(msgspec.Struct):
    user: str
    items: list[Item]


def total(order: Order) -> float:
    found = 0
    for item in order.items:
        if item.n != 3:
            found += item.price / item.n
    return found


@pytest.mark.parametrize("lengths", [[5000], [0, 3, 5000, 1], [3] * 100 + [700]])
def test_long_lists_of_few_rows(lengths: list[int]) -> None:
    orders = [Order("a", [Item(0.1 * place, 1 + place % 7) for place in range(length)]) for length in lengths]
    flow = Flow("long")
    flow.source("orders", Json(Order), time=lambda o: 5).map(total).sink("out")
    assert flow.explain()[1].how == "columns"
    assert list(map(repr, flow.collect({"orders": orders}))) == [repr(total(order)) for order in orders]


@pytest.mark.parametrize("of", [lambda function: function, partial])
def test_dead_letters_are_those_of_the_rows_that_fail(of: Any) -> None:
    orders = [Order("a", [Item(1.0, n - 30 - place) for place in range(n % 4)]) for n in range(60)]
    flow = Flow("failing", on_error="dead-letter")
    flow.source("orders", Json(Order), time=lambda o: 5).map(of(total)).sink("out")
    assert flow.explain()[1].how.startswith("columns") == (of is not partial)
    test = JobTestDriver(flow.job)
    test.feed(0, *orders)
    test.finish()
    zeros = [place for place, order in enumerate(orders) if any(item.n == 0 for item in order.items)]
    assert [letter["offset"] for letter in test.dead()] == zeros and zeros
    assert all("ZeroDivisionError: float division by zero" in letter["reason"] for letter in test.dead())
    assert test.outputs() == [total(order) for place, order in enumerate(orders) if place not in zeros]


def _has_no_value_before(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        last = item.sku
    ctx.emit(last)


def _adds_in_a_function(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for item in event.items:
        total += sum(one * total for one in item.marks)
    ctx.emit(total)


def _hands_a_dict_on(self: Any, event: Any, ctx: Context) -> None:
    made = {"sku": ""}
    for item in event.items:
        made = {"sku": item.sku}
    ctx.emit(made)


@pytest.mark.parametrize(
    ("process", "name"), [(_has_no_value_before, "last"), (_adds_in_a_function, "total"), (_hands_a_dict_on, "made")]
)
def test_other_names_are_left_to_python_by_name(process: Callable[..., Any], name: str) -> None:
    (found,) = followed_sources(job_of(process, "dead-letter"))
    assert found.form is None and f"a loop hands {name!r} on" in found.why_not


def shares(order: Order) -> float:
    found = 0.0
    for item in order.items:
        try:
            found += item.price / item.n
        except ZeroDivisionError:
            found -= 1
    return found


def test_a_try_in_the_loop_of_a_map() -> None:
    """An error that it does not catch would leave the loop, so its function is called there."""
    orders = [Order("a", [Item(1.0, n - 2) for n in range(length)]) for length in range(6)]
    flow = Flow("shares")
    flow.source("orders", Json(Order), time=lambda o: 5).map(shares).sink("out")
    assert flow.explain()[1].how == "columns"
    assert flow.collect({"orders": orders}) == list(map(shares, orders))
