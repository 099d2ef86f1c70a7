"""One job for events of each kind of type: an order as a Struct, a dataclass, a TypedDict, and a NamedTuple.

typed_figures.py measures them. Beside ``holon`` this module imports nothing, so it runs with another checkout.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow
from wcrdt import GCounter, MapOf, Max

RECORDS = 40_000
BEGIN_MS = 1_753_000_000_000
WINDOW = Tumbling.of(seconds=10)


class StructOrder(msgspec.Struct):
    ts: int
    user: str
    price: float
    pieces: int
    note: str | None = None


@dataclass
class DataclassOrder:
    ts: int
    user: str
    price: float
    pieces: int
    note: str | None = None


class DictOrder(TypedDict):
    ts: int
    user: str
    price: float
    pieces: int
    note: str | None


class TupleOrder(NamedTuple):
    ts: int
    user: str
    price: float
    pieces: int
    note: str | None = None


@dataclass
class Total:
    user: str
    total: float


class TotalTuple(NamedTuple):
    user: str
    total: float


def write(path: Path, as_array: bool) -> None:
    """Orders as JSON lines: objects, or arrays, which NamedTuples are read from."""
    draw, lines = random.Random(7), []
    for number in range(RECORDS):
        order = {
            "ts": BEGIN_MS + 5 * number, "user": f"user-{draw.randrange(500)}", "price": draw.randrange(10_000) / 100,
            "pieces": draw.randrange(1, 9), "note": draw.choice((None, "fragile")),
        }  # fmt: skip
        lines.append(json.dumps(list(order.values()) if as_array else order))
    path.write_text("\n".join(lines) + "\n")


def _most_by_user(of: Any, name: str) -> Flow:
    """Orders of more than one piece, and the highest price, by user and window."""
    flow = Flow(name)
    if of is DictOrder:
        orders = flow.source("in", Json(DictOrder), time=lambda order: order["ts"])
        more: Any = orders.filter(lambda order: order["pieces"] > 1).key_by(lambda order: order["user"])
        more.window(WINDOW).agg(lambda g: (g.key, g.count(), g.max(lambda order: order["price"]))).sink("out")
        return flow
    events = flow.source("in", Json[Any](of), time=lambda order: order.ts)
    keyed = events.filter(lambda order: order.pieces > 1).key_by(lambda order: order.user)
    keyed.window(WINDOW).agg(lambda g: (g.key, g.count(), g.max(lambda order: order.price))).sink("out")
    return flow


def _totals(of: Callable[[str, float], Any], name: str) -> Flow:
    """Results of a function, of which some are left out."""
    flow = Flow(name)
    events = flow.source("in", Json(StructOrder), time=lambda order: order.ts)
    events.map(lambda order: of(order.user, order.price * order.pieces)).filter(lambda total: total.total > 300).sink(
        "out"
    )
    return flow


def _called(of: Any, name: str) -> Flow:
    """A function that is not followed."""
    flow = Flow(name)
    flow.source("in", Json[Any](of), time=lambda order: order.ts).filter(lambda order: hash(order.user) == 7).sink(
        "out"
    )
    return flow


class MostByUser(ProcessingFunction[Any]):
    orders = WCRDT(MapOf(GCounter()), WINDOW)
    most = WCRDT(MapOf(Max()), WINDOW)

    def process(self, event: Any, ctx: Context) -> None:
        if event.pieces > 1:
            self.orders.insert((event.user, 1), event.ts)
            self.most.insert((event.user, event.price), event.ts)

    @on_window(most, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.start_ms, await self.most.window_value(window)])


class MostByUserOfDicts(MostByUser):
    def process(self, event: Any, ctx: Context) -> None:
        if event["pieces"] > 1:
            self.orders.insert((event["user"], 1), event["ts"])
            self.most.insert((event["user"], event["price"]), event["ts"])

    @on_window(MostByUser.most, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.start_ms, await self.most.window_value(window)])


def _job(of: Any, name: str) -> Job[Any]:
    if of is DictOrder:
        return Job(name, Source("in", Json(of), lambda event: event["ts"]), MostByUserOfDicts, output="out")
    return Job(name, Source("in", Json(of), lambda event: event.ts), MostByUser, output="out")


flow_of_structs = _most_by_user(StructOrder, "flow_of_structs")
flow_of_dataclasses = _most_by_user(DataclassOrder, "flow_of_dataclasses")
flow_of_dicts = _most_by_user(DictOrder, "flow_of_dicts")
flow_of_tuples = _most_by_user(TupleOrder, "flow_of_tuples")
job_of_structs = _job(StructOrder, "job_of_structs")
job_of_dataclasses = _job(DataclassOrder, "job_of_dataclasses")
job_of_dicts = _job(DictOrder, "job_of_dicts")
called_for_dataclasses = _called(DataclassOrder, "called_for_dataclasses")
to_dataclasses = _totals(Total, "to_dataclasses")
to_tuples = _totals(TotalTuple, "to_tuples")
