"""Orders of two shops, each with a topic of its own: sold pieces and turnover of an item on each day in Berlin.

The days go to a topic and, as Parquet files, to a folder: ``holon run examples.shop_days:flow`` writes both.
"""

from datetime import datetime

import msgspec

from holon import Files, Json, Tumbling
from holon.dataflow import Flow, Group


class Order(msgspec.Struct):
    at: datetime
    item: str
    pieces: int
    cents: int


class Foreign(msgspec.Struct):
    """An order of the shop that takes pounds."""

    at: datetime
    sku: str
    pieces: int
    pence: int


class Day(msgspec.Struct):
    start_ms: int
    item: str
    pieces: int
    cents: int


def day(group: Group[str, Order]) -> Day:
    pieces = group.sum(lambda order: order.pieces)
    return Day(group.window.start_ms, group.key, pieces, group.sum(lambda order: order.pieces * order.cents))


flow = Flow("shop-days")
berlin = flow.source("orders-eu", Json(Order), time=lambda order: order.at, out_of_order="10s", idle="1m")
leeds = flow.source("orders-uk", Json(Foreign), time=lambda order: order.at, out_of_order="1m", idle="5m")
in_euros = leeds.map(lambda order: Order(order.at, order.sku, order.pieces, order.pence * 117 // 100))
days = berlin.union(in_euros).key_by(lambda order: order.item).window(Tumbling("1d", tz="Europe/Berlin")).agg(day)
days.sink("days", key=lambda row: row.item)
days.sink(Files("out/days", "parquet", commit_after="1m"))
