"""Jobs as a data engineer writes them in the first hour: ``process`` and ``insert``, in plain Python.

python deploy/bench/flows/first_figures.py measures them, and the same ones as flows.
"""

from __future__ import annotations

import math
import re
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from deploy.bench.flows.first_records import (
    Event,
    Level,
    Line,
    Measured,
    Order,
    Payment,
    Position,
    Raw,
    Ride,
    Seconds,
    Tagged,
    Text,
)
from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from wcrdt import Average, GCounter, GSet, MapOf, Max, Sum

WINDOW = Tumbling.of(seconds=10)
LINE = re.compile(
    r'(?P<host>\S+) \S+ \S+ \[[^\]]+\] "(?P<method>\S+) (?P<path>\S+) [^"]*" (?P<status>\d{3}) (?P<size>\d+)'
)
HOME = (47.37, 8.54)


class Words(ProcessingFunction[Text]):
    count = WCRDT(MapOf(GCounter()), WINDOW)

    def process(self, event: Text, ctx: Context) -> None:
        for word in event.text.lower().split():
            self.count.insert((word, 1), event.ts)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.start_ms, await self.count.window_value(window)])


class Access(ProcessingFunction[Line]):
    """By the regular expression."""

    hits = WCRDT(MapOf(GCounter()), WINDOW)
    sizes = WCRDT(MapOf(Sum()), WINDOW)

    def process(self, event: Line, ctx: Context) -> None:
        match = LINE.match(event.line)
        if match is None:
            return
        self.hits.insert((match["path"], 1), event.ts)
        self.sizes.insert((match["host"], int(match["size"])), event.ts)


class AccessBySplit(ProcessingFunction[Line]):
    hits = WCRDT(MapOf(GCounter()), WINDOW)
    sizes = WCRDT(MapOf(Sum()), WINDOW)

    def process(self, event: Line, ctx: Context) -> None:
        parts = event.line.split(" ")
        if len(parts) < 10:
            return
        self.hits.insert((parts[6], 1), event.ts)
        self.sizes.insert((parts[0], int(parts[9])), event.ts)


class Pairs(ProcessingFunction[Line]):
    values = WCRDT(MapOf(Average()), WINDOW)

    def process(self, event: Line, ctx: Context) -> None:
        name, _, text = event.line.partition("=")
        try:
            value = float(text)
        except ValueError:
            return
        self.values.insert((name, value), event.ts)


class Hours(ProcessingFunction[Seconds]):
    by_minute = WCRDT(MapOf(GCounter()), WINDOW)
    by_day = WCRDT(MapOf(Sum()), WINDOW)

    def process(self, event: Seconds, ctx: Context) -> None:
        at = datetime.fromtimestamp(event.ts, tz=UTC)
        self.by_minute.insert((at.strftime("%H:%M"), 1), int(event.ts * 1000))
        if at.weekday() < 5 and 8 <= at.hour < 18:
            self.by_day.insert((f"{event.shop}:{at.date()}", round(event.amount, 2)), int(event.ts * 1000))


class Rides(ProcessingFunction[Ride]):
    longest = WCRDT(MapOf(Max()), WINDOW)
    long = WCRDT(GCounter(), WINDOW)
    limit = timedelta(hours=1)

    def process(self, event: Ride, ctx: Context) -> None:
        start = datetime.strptime(event.start, "%d/%b/%Y:%H:%M:%S %z")
        end = datetime.strptime(event.end, "%d/%b/%Y:%H:%M:%S %z")
        took = end - start
        self.longest.insert((event.taxi, took.total_seconds()), event.ts)
        if took > self.limit:
            self.long.insert(1, event.ts)


class Distances(ProcessingFunction[Position]):
    far = WCRDT(MapOf(Max()), WINDOW)
    cells = WCRDT(MapOf(GCounter()), WINDOW)

    def process(self, event: Position, ctx: Context) -> None:
        distance = math.hypot(event.x - HOME[0], event.y - HOME[1])
        self.far.insert((event.device, round(distance, 2)), event.ts)
        self.cells.insert(((math.floor(event.x), math.floor(event.y)), 1), event.ts)


class Orders(ProcessingFunction[Order]):
    revenue = WCRDT(MapOf(Sum()), WINDOW)
    largest = WCRDT(Max(), WINDOW)
    vips = WCRDT(GCounter(), WINDOW)

    def process(self, event: Order, ctx: Context) -> None:
        total = sum(item.price * item.count for item in event.items)
        self.revenue.insert((event.customer, total), event.ts)
        self.largest.insert(max(item.price for item in event.items), event.ts)
        if "vip" in event.coupons and any(item.price > 50 for item in event.items):
            self.vips.insert(1, event.ts)


class Tags(ProcessingFunction[Tagged]):
    count = WCRDT(MapOf(GCounter()), WINDOW)
    hosts = WCRDT(MapOf(GSet()), WINDOW)

    def process(self, event: Tagged, ctx: Context) -> None:
        env = event.tags.get("env", "none")
        self.count.insert((env, 1), event.ts)
        if "zone" in event.tags:
            self.hosts.insert((event.tags["zone"], event.host), event.ts)


class Metrics(ProcessingFunction[Measured]):
    mean = WCRDT(MapOf(Average()), WINDOW)

    def process(self, event: Measured, ctx: Context) -> None:
        for name, value in event.metrics.items():
            self.mean.insert((f"{event.host}/{name}", value), event.ts)


def severity(event: Event) -> int:
    match event.level:
        case Level.ERROR:
            return 3
        case Level.INFO:
            return 1
        case _:
            return 0


class Levels(ProcessingFunction[Event]):
    count = WCRDT(MapOf(GCounter()), WINDOW)
    worst = WCRDT(MapOf(Max()), WINDOW)

    def process(self, event: Event, ctx: Context) -> None:
        if event.level == Level.DEBUG:
            return
        user = event.user or "anonymous"
        self.count.insert((f"{event.service}:{user}", 1), event.ts)
        self.worst.insert((event.service, severity(event) + (event.retries or 0)), event.ts)


class Payments(ProcessingFunction[Payment]):
    total = WCRDT(MapOf(Sum()), WINDOW)
    count = WCRDT(MapOf(GCounter()), WINDOW)

    def __init__(self) -> None:
        self.rates = {"CHF": Decimal("1"), "EUR": Decimal("0.94"), "USD": Decimal("0.88")}
        self.limit = Decimal("1000")

    def in_francs(self, event: Payment) -> Decimal:
        return event.amount * self.rates[event.currency]

    def process(self, event: Payment, ctx: Context) -> None:
        if event.sender == event.receiver:
            return
        amount = self.in_francs(event)
        self.total.insert((event.sender, amount), event.ts)
        if amount > self.limit:
            self.count.insert(((event.sender, event.receiver), 1), event.ts)
            ctx.emit({"at": event.ts, "sender": event.sender, "amount": str(amount)})


class Numbers(ProcessingFunction[Raw]):
    mean = WCRDT(MapOf(Average()), WINDOW)
    bad = WCRDT(GCounter(), WINDOW)

    def process(self, event: Raw, ctx: Context) -> None:
        try:
            value = float(event.value)
        except ValueError:
            self.bad.insert(1, event.ts)
            return
        self.mean.insert((event.sensor, value), event.ts)


def _job(name: str, event: type, function: type[ProcessingFunction[Any]]) -> Job[Any]:
    return Job(name, Source(name, Json(event), timestamp=lambda event: event.ts), function, output=f"{name}-out")


words = _job("words", Text, Words)
access = _job("access", Line, Access)
access_by_split = _job("access-by-split", Line, AccessBySplit)
pairs = _job("pairs", Line, Pairs)
hours = Job(
    "hours",
    Source("hours", Json(Seconds), timestamp=lambda event: event.ts, timestamp_unit="s"),
    Hours,
    output="hours-out",
)
rides = _job("rides", Ride, Rides)
distances = _job("distances", Position, Distances)
orders = _job("orders", Order, Orders)
tags = _job("tags", Tagged, Tags)
metrics = _job("metrics", Measured, Metrics)
levels = _job("levels", Event, Levels)
payments = _job("payments", Payment, Payments)
numbers = _job("numbers", Raw, Numbers)
