"""Jobs as users write them, for their simulation: some are right, and some use what is no declared state."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from holon import (
    WCRDT,
    BoundedOutOfOrderness,
    Context,
    Job,
    Json,
    Local,
    Output,
    ProcessingFunction,
    Session,
    Sliding,
    Source,
    Tumbling,
    Window,
    on_window,
)
from holon.arrow import Arrow
from holon.dataflow import Flow
from wcrdt import GCounter

NUMBERS = count()


class Order(msgspec.Struct):
    at: int
    id: int
    amount: int


def source(**settings: Any) -> Source[Order]:
    given = {"timestamp": lambda order: order.at, "watermarks": BoundedOutOfOrderness(50)} | settings
    return Source("orders", Json(Order), **given)


class Refund(msgspec.Struct):
    at: int
    id: int
    amount: int


class Sums(ProcessingFunction[Order]):
    """Amounts by window, dear orders by key, and the first order of each amount on its partition."""

    total, first = WCRDT(GCounter(), Tumbling(1000)), Local({}, type=dict[int, int])

    def process(self, order: Order, ctx: Context) -> None:
        self.total.insert(order.amount, order.at)
        if order.amount > 7:
            ctx.emit({"dear": order.id}, output="dear", key=str(order.amount).encode())
        if self.first.value.setdefault(order.amount, order.id) == order.id:
            ctx.emit({"first": order.id, "partition": ctx.partition})

    @on_window(total, scope="global")
    async def close(self, window: Window, ctx: Context) -> None:
        ctx.emit({"end": window.end_ms, "total": await self.total.window_value(window)})


def sums(name: str, source: Source[Order]) -> Job[Order]:
    dear = Output("dear-orders", route_by_key=True, partitions=3)
    return Job(name, source, Sums, output="sums", side_outputs={"dear": dear}, on_error="dead-letter")


def refunds(idle: str | None = None) -> Job[Any]:
    """Orders and refunds by amount in one window; the two have event times that are far apart."""
    flow = Flow("refunds")
    orders = flow.source("orders", Json(Order), time=lambda o: o.at, out_of_order=50, idle=idle)
    back = flow.source("refunds", Json(Refund), time=lambda r: r.at, out_of_order=700, idle=idle)
    both = orders.map(lambda o: (o.amount, 1)).union(back.map(lambda r: (r.amount, -1)))
    both.key_by(lambda row: row[0]).window(Tumbling(1000)).agg(
        lambda g: (g.window.end_ms, g.key, g.count(), g.sum(lambda row: row[1]))
    ).sink("balances")
    return flow.job


RIGHT = {
    "sums": sums("sums", source()),
    "idle": sums("idle", source(idle_timeout_ms=3_600_000)),
    "log-time": sums("log-time", source(timestamp=None)),
    "guarded": sums("guarded", source(max_future_skew_ms=10)),
    "latest": sums("latest", source(start="latest", filter=lambda order: order.id % 3)),
}


def of_own_lateness(idle: str | None = None) -> Job[Any]:
    """Windows of one flow that take rows for different times after their ends, sharded and not, and windows behind."""
    flow = Flow("lateness")
    orders = flow.source("orders", Json(Order), time=lambda o: o.at, out_of_order=50, idle=idle)
    quick = orders.key_by(lambda o: o.amount).window(Tumbling(1000))
    quick.agg(lambda g: (g.window.end_ms, g.key, g.count())).sink("quick")
    panes = orders.key_by(lambda o: o.amount, sharded=True).window(Sliding(2000, 500), lateness=3000)
    rows = panes.agg(lambda g: (g.window.start_ms, g.window.end_ms, g.key, g.count(), g.max(lambda o: o.id)))
    rows.sink("panes")
    rows.window(Tumbling(4000)).agg(lambda g: (g.window.end_ms, g.sum(lambda row: row[3]))).sink("further")
    visits = orders.key_by(lambda o: o.amount).window(Session(300), lateness=900)
    visits.agg(lambda g: (g.key, g.window.start_ms, g.window.end_ms, g.count())).sink("visits")
    return flow.job


RIGHT["lateness"] = of_own_lateness()
RIGHT["lateness-idle"] = of_own_lateness("1h")


def by_batches() -> Job[Any]:
    """Sums of orders in record batches of Arrow, as columns."""
    flow = Flow("batches")
    orders = flow.source("orders", Arrow(Order), time=lambda o: o.at, out_of_order=50)
    orders.key_by(lambda o: o.amount).window(Tumbling(1000)).agg(
        lambda g: (g.window.end_ms, g.key, g.count(), g.max(lambda o: o.id))
    ).sink("sums")
    return flow.job


def function(name: str, process: Callable[[Order, Context], None]) -> Job[Order]:
    return Job(name, source(), process, output="results")


def by_clock() -> Job[Order]:
    return function("by-clock", lambda order, ctx: ctx.emit({"id": order.id, "now": time.time_ns()}))


def by_counter() -> Job[Order]:
    return function("by-counter", lambda order, ctx: ctx.emit({"id": order.id, "number": next(NUMBERS)}))


def by_memory() -> Job[Order]:
    """Right as long as no partition is processed again: its own dictionary is gone then, or has too much."""
    seen: dict[int, list[int]] = {}

    def process(order: Order, ctx: Context) -> None:
        before = seen.setdefault(ctx.partition, [])
        if not before or order.id <= before[-1]:
            before.clear()  # another pass begins
        before.append(order.id)
        ctx.emit({"id": order.id, "number": len(before)})

    return function("by-memory", process)


def failing() -> Job[Order]:
    def process(order: Order, ctx: Context) -> None:
        if order.id == 20:
            raise ValueError("twenty")

    return function("failing", process)


def none_accepted() -> Job[Order]:
    return Job("none", Source("orders", Json(Window)), lambda order, ctx: None, output="results")


def of_two_topics() -> dict[str, list[bytes]]:
    """The orders, and refunds of half of them up to 800 ms later, which the job takes from another topic."""
    back = [Refund(90 * n + 400 * (n % 3), n, n * 5 % 11) for n in range(60)]
    return {"orders": lines(), "refunds": [*map(msgspec.json.encode, back), b"no refund"]}


def lines(number: int = 120) -> list[bytes]:
    """Orders, a little out of order, some late, and one line that is none."""
    orders = [Order(40 * n + 60 * (n % 3) - 3000 * (n % 29 == 28), n, n * 7 % 11) for n in range(number)]
    return [*map(msgspec.json.encode, orders), b"no order"]


two_topics = refunds()
