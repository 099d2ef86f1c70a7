"""Jobs as a data engineer writes them in the first hour, as flows: those of ``first_jobs.py`` that make sense so."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import msgspec

from deploy.bench.flows.first_records import Line, Order, Position, Raw, Ride, Tagged, Text
from holon import Json, Tumbling
from holon.dataflow import Flow

WINDOW = Tumbling.of(seconds=10)


class Count(msgspec.Struct):
    word: str
    ts: int


class Value(msgspec.Struct):
    key: str
    value: float


def _stream(name: str, event: Any) -> Any:
    flow = Flow(f"{name}-flow")
    return flow, flow.source(name, Json(event), time=lambda event: event.ts)


words, _texts = _stream("words", Text)
_words = _texts.flat_map(lambda event: [Count(word, event.ts) for word in event.text.lower().split()])
_words.key_by(lambda one: one.word).window(WINDOW).agg(lambda g: (g.key, g.count())).sink("words-out")


def size(event: Line) -> Value | None:
    parts = event.line.split(" ")
    if len(parts) < 10:
        return None
    return Value(parts[6], float(parts[9]))


access, _lines = _stream("access", Line)
_sizes = _lines.filter_map(size).key_by(lambda one: one.key).window(WINDOW)
_sizes.agg(lambda g: (g.key, g.count(), g.mean(lambda one: one.value))).sink("access-out")


def number(event: Raw) -> Value | None:
    try:
        return Value(event.sensor, float(event.value))
    except ValueError:
        return None


numbers, _raw = _stream("numbers", Raw)
_values = _raw.filter_map(number).key_by(lambda one: one.key).window(WINDOW)
_values.agg(lambda g: (g.key, g.mean(lambda one: one.value))).sink("numbers-out")


def took(event: Ride) -> Value:
    form = "%d/%b/%Y:%H:%M:%S %z"
    taken = datetime.strptime(event.end, form) - datetime.strptime(event.start, form)
    return Value(event.taxi, taken.total_seconds())


rides, _rides = _stream("rides", Ride)
_taken = _rides.map(took).key_by(lambda one: one.key).window(WINDOW)
_taken.agg(lambda g: (g.key, g.max(lambda one: one.value))).sink("rides-out")

distances, _positions = _stream("distances", Position)
_far = _positions.key_by(lambda event: event.device).window(WINDOW)
_far.agg(lambda g: (g.key, g.max(lambda one: round(math.hypot(one.x - 47.37, one.y - 8.54), 2)))).sink("distances-out")

tags, _tagged = _stream("tags", Tagged)
_envs = _tagged.key_by(lambda event: event.tags.get("env", "none")).window(WINDOW)
_envs.agg(lambda g: (g.key, g.count())).sink("tags-out")

orders, _orders = _stream("orders", Order)
_totals = _orders.map(lambda event: Value(event.customer, sum(item.price * item.count for item in event.items)))
_revenue = _totals.key_by(lambda one: one.key).window(WINDOW)
_revenue.agg(lambda g: (g.key, g.sum(lambda one: one.value))).sink("orders-out")


def minute(event: Text) -> str:
    return datetime.fromtimestamp(event.ts // 1000, tz=UTC).strftime("%H:%M")


minutes, _times = _stream("words", Text)
_times.key_by(minute).window(WINDOW).agg(lambda g: (g.key, g.count())).sink("minutes-out")

dicts, _sold = _stream("orders", Order)
_rows = _sold.map(lambda event: {"customer": event.customer, "items": len(event.items), "ts": event.ts})
_large = _rows.filter(lambda row: row["items"] > 1).key_by(lambda row: row["customer"]).window(WINDOW)
_large.agg(lambda g: {"customer": g.key, "items": g.sum(lambda row: row["items"])}).sink("dicts-out")

tuples, _pairs = _stream("orders", Order)
_counted = _pairs.map(lambda event: (event.customer, len(event.items), event.ts))
_many = _counted.filter(lambda row: row[1] > 1).key_by(lambda row: row[0]).window(WINDOW)
_many.agg(lambda g: (g.key, g.sum(lambda row: row[1]))).sink("tuples-out")


def basket(event: Order) -> Value:
    total = 0.0
    for item in event.items:
        if item.count > 0:
            total += item.price * item.count
    return Value(event.customer, total)


added, _baskets = _stream("orders", Order)
_sums = _baskets.map(basket).key_by(lambda one: one.key).window(WINDOW)
_sums.agg(lambda g: (g.key, g.sum(lambda one: one.value))).sink("added-out")


def weighed(event: Order) -> Value:
    total = 0.0
    for place, (item, share) in enumerate(zip(event.items, (1.0, 0.5, 0.25, 0.125), strict=False)):
        if place < item.count:
            total += item.price * share
    return Value(event.customer, total)


counted, _weights = _stream("orders", Order)
_shares = _weights.map(weighed).key_by(lambda one: one.key).window(WINDOW)
_shares.agg(lambda g: (g.key, g.sum(lambda one: one.value))).sink("counted-out")


VIPS = {f"customer-{number}" for number in range(100)}


def _is_wanted(event: Order) -> bool:
    return bool(event.coupons) and (event.customer in VIPS or "vip" in event.coupons)


members, _wanted = _stream("orders", Order)
_chosen = _wanted.filter(_is_wanted).key_by(lambda event: event.customer).window(WINDOW)
_chosen.agg(lambda g: (g.key, g.count(), g.max(lambda event: len(event.items)))).sink("members-out")


def has_dear(event: Order) -> bool:
    for item in event.items:  # noqa: SIM110 (this is what it measures)
        if item.price > 80:
            return True
    return False


returned, _all_orders = _stream("orders", Order)
_dear = _all_orders.filter(has_dear).key_by(lambda event: event.customer).window(WINDOW)
_dear.agg(lambda g: (g.key, g.count(), g.max(lambda event: len(event.items)))).sink("returned-out")


def until_many(event: Order) -> Value:
    total = 0.0
    for item in event.items:
        if item.count > 3:
            break
        total += item.price
    return Value(event.customer, total)


left, _until = _stream("orders", Order)
_parts = _until.map(until_many).key_by(lambda one: one.key).window(WINDOW)
_parts.agg(lambda g: (g.key, g.sum(lambda one: one.value))).sink("left-out")
