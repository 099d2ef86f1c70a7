"""Functions of flows with loops that a turn leaves (``break``, ``return``) go by columns, with the values of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import pytest

from holon import Json, Tumbling
from holon.dataflow import Flow
from holon.dataflow.following.loops import carrying, ends
from holon.testing import JobTestDriver

pytestmark = pytest.mark.usefixtures("loops_installed")

PRICES = [0.1, 0.2, 1e16, 1.0, -1e16, 0.3, -0.0]


class Item(msgspec.Struct):
    sku: str
    price: float
    count: int
    note: str | None = None


class Order(msgspec.Struct):
    user: str
    limit: int
    tags: list[str]
    items: list[Item]


class Hit(msgspec.Struct):
    sku: str
    price: float


def has_web(order: Order) -> bool:
    for tag in order.tags:  # noqa: SIM110 (the loop is what is followed)
        if tag == "web":
            return True
    return False


def is_cheap(order: Order) -> bool:
    for item in order.items:  # noqa: SIM110 (the same)
        if item.price * item.count > order.limit:
            return False
    return True


def dearest(order: Order) -> Hit | None:
    for item in order.items:
        if item.count > order.limit:
            return Hit(item.sku, item.price)
        if item.note is None:
            return Hit(item.sku, item.price)
    return None


def kind(order: Order) -> str:
    for place, tag in enumerate(order.tags):
        if tag.startswith("k"):
            return f"{order.user}/{place:02d}"
    else:
        if order.limit > 2:
            return order.user
    return "none"


def as_dict(order: Order) -> dict[str, Any]:
    hit, seen = None, 0
    for item in order.items:
        seen += item.count
        if item.price > 1:
            hit = item.sku
            break
    return {"user": order.user, "hit": hit, "seen": seen}


def as_tuple(order: Order) -> tuple[str, float]:
    total = 0.0
    for item in order.items:
        if item.count == 3:
            return item.sku, total
        total += item.price
    return order.user, total


def whole_item(order: Order) -> Item | None:
    for item in order.items:
        if item.price > 1:
            return item
    return None


def divides(order: Order) -> int:
    """It fails for some orders, and for some items that it does not reach."""
    for item in order.items:
        if 12 // item.count > order.limit:
            return 12 // (item.count - 1)
    return 0


def some(order: Order) -> Iterable[Any]:
    for item in order.items:
        if item.count > order.limit:
            return item.sku, order.user
    return (tag.upper() for tag in order.tags)


def first_of_each(order: Order) -> int:
    return sum(sold(item, order.limit) for item in order.items)


def sold(item: Item, limit: int) -> int:
    for word in item.sku.split():
        if word == "c" or item.count > limit:
            return len(word) * item.count
    return -1


def with_a_set(order: Order) -> int:
    """It makes a set, which is another one each time that it is followed."""
    known = set(order.tags)
    for item in order.items:
        if item.sku in known or item.count > 3:
            return item.count
    return len(known)


def until(order: Order) -> int:
    """A ``while`` beside a loop that is left."""
    found = 0
    for item in order.items:
        if item.count > order.limit:
            found = item.count
            break
    turns = 0
    while turns < 3:
        found += order.limit
        turns += 1
    return found


ORDERS = [
    Order(
        "ab"[place % 2],
        place % 4,
        ["web", "k", "", "kk"][place % 4 : place % 5],
        [Item("abc"[(place + n) % 3], PRICES[(place * n) % 7], (place + 2 * n) % 5 + 1, [None, "x"][place % 3 > 0])
         for n in range(place % 6)],
    )
    for place in range(150)
]  # fmt: skip


def flow_of(verb: str, function: Callable[..., Any], policy: Any = "fail") -> Flow:
    flow = Flow("left", on_error=policy)
    orders = flow.source("orders", Json(Order), time=lambda order: 5)
    getattr(orders, verb)(function).sink("out")
    return flow


FUNCTIONS = [("filter", has_web), ("filter", is_cheap), ("map", has_web), ("filter_map", dearest), ("map", kind),
             ("map", as_dict), ("map", as_tuple), ("filter_map", whole_item), ("flat_map", some),
             ("map", first_of_each), ("map", with_a_set), ("map", until)]  # fmt: skip


@pytest.mark.parametrize("few", [0, 16])
@pytest.mark.parametrize(("verb", "function"), FUNCTIONS)
def test_functions_of_flows(verb: str, function: Any, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "FEW", few)
    monkeypatch.setattr(ends, "FIRST_TURNS", 1 + few)
    flow = flow_of(verb, function)
    assert flow.explain()[1].how == "columns"
    found = flow.collect({"orders": ORDERS})
    assert list(map(repr, found)) == list(map(repr, flow_of(verb, partial(function)).collect({"orders": ORDERS})))
    assert len(set(map(repr, found))) > 1


@pytest.mark.parametrize("follow", [True, False])
def test_dead_letters_are_those_of_the_rows_that_reach_what_fails(follow: bool) -> None:
    orders = [Order("a", place % 3, [], [Item("a", 1.0, (place + n) % 4) for n in range(place % 4)])
              for place in range(90)]  # fmt: skip
    flow = flow_of("map", divides if follow else partial(divides), "dead-letter")
    assert flow.explain()[1].how.startswith("columns") == follow
    test = JobTestDriver(flow.job)
    test.feed(0, *orders)
    test.finish()
    wanted, failing = [], []
    for place, order in enumerate(orders):
        try:
            wanted.append(divides(order))
        except ZeroDivisionError:
            failing.append(place)
    assert [letter["offset"] for letter in test.dead()] == failing and len(set(wanted)) > 2
    assert test.outputs() == wanted


def test_keys_of_a_window() -> None:
    def counted(function: Callable[..., Any]) -> list[Any]:
        flow = Flow("keys")
        orders = flow.source("orders", Json(Order), time=lambda order: order.limit * 1000)
        windows = orders.key_by(function).window(Tumbling("2s"))
        windows.agg(lambda g: (g.key, g.count(), g.sum(lambda order: len(order.items)))).sink("out")
        return sorted(map(repr, flow.collect({"orders": sorted(ORDERS, key=lambda order: order.limit)})))

    assert counted(kind) == counted(partial(kind))


def to_list(value: Any) -> Any:
    """As a sink writes it."""
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("lengths", [[5000], [0, 3, 5000, 1], [3] * 100 + [700]])
@pytest.mark.parametrize("function", [has_web, as_tuple, is_cheap])
def test_long_lists(function: Any, lengths: list[int]) -> None:
    orders = [
        Order(
            "a",
            10**9,
            ["a"] * (length - 1) + ["web"],
            [Item("s", 0.1, 1 + (place == length - 2)) for place in range(length)],
        )
        for length in lengths
    ]
    flow = flow_of("map", function)
    assert flow.explain()[1].how == "columns"
    assert list(map(repr, flow.collect({"orders": orders}))) == [repr(to_list(function(order))) for order in orders]
