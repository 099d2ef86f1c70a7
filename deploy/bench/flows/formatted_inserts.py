"""Pairs of texts as keys that a format makes, record by record: a job for ``holon profile``.

python -c "from deploy.bench.flows.formatted_inserts import write; write('orders.jsonl')"
holon profile deploy.bench.flows.formatted_inserts:job --data orders.jsonl
"""

from __future__ import annotations

import random

import msgspec

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling
from wcrdt import GCounter, MapOf

RECORDS = 40_000
BEGIN_MS = 1_753_000_000_000


class Order(msgspec.Struct):
    ts: int
    country: str
    shop: int
    cents: int


class Orders(ProcessingFunction[Order]):
    seen = WCRDT(MapOf(GCounter()), Tumbling.of(seconds=10))

    def process(self, event: Order, ctx: Context) -> None:
        self.seen.insert((f"{event.country}/{event.shop:03d}", 1), event.ts)
        if event.cents > 90_000:
            ctx.emit({"at": event.ts, "order": f"{event.country}/{event.shop:03d}: {event.cents}"})


job = Job("orders", Source("orders", Json(Order), timestamp=lambda event: event.ts), Orders, output="orders-out")


def write(path: str) -> None:
    """Records as JSON lines."""
    draw = random.Random(1)
    with open(path, "wb") as file:
        for number in range(RECORDS):
            country = draw.choice(("CH", "DE", "FR", "IT"))
            order = Order(BEGIN_MS + number, country, draw.randrange(200), draw.randrange(100_000))
            file.write(msgspec.json.encode(order) + b"\n")
