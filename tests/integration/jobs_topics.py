"""A flow over two topics, of which the second has another format, event time and out-of-orderness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from holon import Json
from holon.dataflow import Flow, Tumbling
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event

ORDERS = "orders"
ORDERED = "ordered"


class Order(msgspec.Struct):
    """``second`` is its time."""

    second: float
    number: int
    price: int


class Act(msgspec.Struct):
    key: int
    amount: int


class Total(msgspec.Struct):
    end_ms: int
    key: int
    acts: int
    amount: int


class Ordered(msgspec.Struct):
    number: int
    twice: int


flow = Flow("topics", on_error="dead-letter")
events = flow.source(INPUT, Json(Event), time=lambda event: event.ts)
orders = flow.source(ORDERS, Json(Order), time=lambda o: o.second, unit="s", out_of_order="300ms")
acts = events.map(lambda e: Act(e.id % 7, e.amount)).union(orders.map(lambda o: Act(o.number % 7, o.price)))
acts.key_by(lambda act: act.key).window(Tumbling("1s")).agg(
    lambda g: Total(g.window.end_ms, g.key, g.count(), g.sum(lambda act: act.amount))
).sink(OUTPUT)
orders.filter(lambda o: o.number % 5 == 0).map(lambda o: Ordered(o.number, 2 * o.price)).sink(ORDERED)


def orders_of(count: int, partitions: int) -> dict[int, list[Order]]:
    """By partition, up to 300 ms out of order."""
    found: dict[int, list[Order]] = {partition: [] for partition in range(partitions)}
    for number in range(count):
        found[number % partitions].append(Order((20 * number - 37 * number % 290) / 1000, number, number % 11))
    return found


def expected(
    events: Mapping[int, Sequence[Event]], orders: Mapping[int, Sequence[Order]]
) -> tuple[Counter[str], Counter[str]]:
    """The lines of both outputs."""
    acts: Counter[tuple[int, int]] = Counter()
    amounts: Counter[tuple[int, int]] = Counter()
    for event in (one for some in events.values() for one in some):
        acts[event.ts // 1000, event.id % 7] += 1
        amounts[event.ts // 1000, event.id % 7] += event.amount
    ordered: list[Ordered] = []
    for order in (one for some in orders.values() for one in some):
        at_ms = round(order.second * 1000)
        acts[at_ms // 1000, order.number % 7] += 1
        amounts[at_ms // 1000, order.number % 7] += order.price
        ordered += [Ordered(order.number, 2 * order.price)] * (order.number % 5 == 0)
    totals = [Total(1000 * second + 1000, key, acts[second, key], amounts[second, key]) for second, key in acts]
    return _lines(totals), _lines(ordered)


def _lines(rows: Sequence[msgspec.Struct]) -> Counter[str]:
    return Counter(msgspec.json.encode(row).decode() for row in rows)
