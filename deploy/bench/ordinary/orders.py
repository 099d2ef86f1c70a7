"""Orders with objects inside of objects: how many, and their worth in cents, by the city that they go to."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, RecordOf


class Address(msgspec.Struct):
    city: str


class Shipping(msgspec.Struct):
    address: Address


class Payment(msgspec.Struct):
    cents: int


class Order(msgspec.Struct):
    shipping: Shipping
    payment: Payment
    ts: int


class Orders(ProcessingFunction[Order]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), cents=GCounter())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Order], ctx: Context) -> None:
        self.seen.insert_many(
            (batch["shipping.address.city"], (batch.ts_ms * 0 + 1, batch["payment.cents"])), batch.ts_ms
        )

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for city, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "city": city, **one})


class ByRecord(Orders):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Order, ctx: Context) -> None:
        self.seen.insert((event.shipping.address.city, (1, event.payment.cents)), event.ts)


job = Job("orders", Source("orders", JsonColumns(Order), timestamp="ts"), Orders, output="orders-out")
by_record = Job(
    "orders-by-record",
    Source("orders", Json(Order), timestamp=lambda event: event.ts),
    ByRecord,
    output="orders-out",
)


class Row(msgspec.Struct):
    window_start: int
    city: str
    count: int
    cents: int


def result(group: Group[str, Order]) -> Row:
    return Row(group.window.start_ms, group.key, group.count(), group.sum(lambda order: order.payment.cents))


flow = Flow("orders-flow", columnar=True)
_orders = flow.source("orders", Json(Order), time=lambda order: order.ts)
_orders.key_by(lambda order: order.shipping.address.city).window(Tumbling.of(seconds=10)).agg(result).sink("orders-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        row = {
            "id": number,
            "customer": {"id": draw.randrange(10**6), "name": {"first": "Zoë", "last": "Müller"}},
            "shipping": {
                "method": "post",
                "address": {"street": "Weg 1", "city": f"Stadt {draw.randrange(300)}", "zip": 8000},
            },
            "payment": {"method": draw.choice(("card", "invoice")), "cents": draw.randrange(100, 90_000)},
            "lines": [{"sku": f"A{draw.randrange(999)}", "quantity": 1}] * draw.randrange(1, 4),
            "ts": 1_753_000_000_000 + number // 10,
        }
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
