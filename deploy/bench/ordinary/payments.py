"""Card payments: exact sums of decimals for each of 200 merchants; times are whole seconds."""

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, RecordOf, Sum


class Payment(msgspec.Struct):
    merchant: str
    amount: Decimal
    at: int


class Payments(ProcessingFunction[Payment]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), total=Sum())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Payment], ctx: Context) -> None:
        self.seen.insert_many((batch["merchant"], (batch.ts_ms * 0 + 1, batch["amount"])), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for merchant, one in (await self.seen.window_value(window)).items():
            ctx.emit(
                {
                    "window_start": window.start_ms,
                    "merchant": merchant,
                    "count": one["count"],
                    "total": f"{one['total']:.2f}",
                }
            )


class ByRecord(Payments):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Payment, ctx: Context) -> None:
        self.seen.insert((event.merchant, (1, event.amount)), event.at * 1000)


job = Job(
    "payments",
    Source("payments", JsonColumns(Payment), timestamp="at", timestamp_unit="s"),
    Payments,
    output="payments-out",
)
by_record = Job(
    "payments-by-record",
    Source("payments", Json(Payment), timestamp=lambda event: event.at, timestamp_unit="s"),
    ByRecord,
    output="payments-out",
)


class Row(msgspec.Struct):
    window_start: int
    merchant: str
    count: int
    total: str


def result(group: Group[str, Payment]) -> Row:
    total = group.sum(lambda payment: payment.amount)
    return Row(group.window.start_ms, group.key, group.count(), f"{total:.2f}")


flow = Flow("payments-flow")
_payments = flow.source("payments", Json(Payment), time=lambda payment: payment.at, unit="s")
_totals = _payments.key_by(lambda payment: payment.merchant).window(Tumbling.of(seconds=10)).agg(result, columnar=True)
_totals.sink("payments-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        row = {
            "card": f"{draw.randrange(10**16):016d}",
            "merchant": f"merchant-{draw.randrange(200)}",
            "amount": f"{draw.randrange(1, 500_000) / 100:.2f}",
            "currency": "CHF",
            "at": 1_753_000_000 + number // 10_000,
            "online": draw.random() < 0.4,
        }
        yield json.dumps(row, separators=(",", ":")).encode()
