"""Three jobs in a row: what one writes is the next one's input, and counts once, whatever is killed or reset.

holon log append orders.jsonl --topic orders --create --partitions 4
holon run examples.chained:up --bounded
holon run examples.chained:mid --bounded
holon run examples.chained:down --bounded
holon read chained-by-minute
"""

import msgspec

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, WLocal, on_window
from wcrdt import GCounter


class Order(msgspec.Struct):
    ts: int
    customer: str
    quantity: int
    cents: int


class Priced(msgspec.Struct):
    ts: int
    customer: str
    cents: int


class Share(msgspec.Struct):
    """The share of one partition in a minute."""

    ts: int
    partition: int
    orders: int
    cents: int


class Minute(msgspec.Struct):
    start_ms: int
    partitions: int
    orders: int
    cents: int


def price(order: Order, ctx: Context) -> None:
    """Record by record."""
    if order.quantity > 0:
        ctx.emit(Priced(order.ts, order.customer, order.quantity * order.cents))


class Shares(ProcessingFunction[Priced]):
    """Windows that each partition answers for itself."""

    orders = WLocal(GCounter(), Tumbling.of(minutes=1))
    cents = WLocal(GCounter(), Tumbling.of(minutes=1))

    def process(self, priced: Priced, ctx: Context) -> None:
        self.orders.insert(1, priced.ts)
        self.cents.insert(priced.cents, priced.ts)

    @on_window(orders)
    async def share(self, window: Window, ctx: Context) -> None:
        orders, cents = await self.orders.window_value(window), await self.cents.window_value(window)
        if orders:
            ctx.emit(Share(window.start_ms, ctx.partition, orders, cents))


class Minutes(ProcessingFunction[Share]):
    """Windows over all partitions, each answered once."""

    partitions = WCRDT(GCounter(), Tumbling.of(minutes=1))
    orders = WCRDT(GCounter(), Tumbling.of(minutes=1))
    cents = WCRDT(GCounter(), Tumbling.of(minutes=1))

    def process(self, share: Share, ctx: Context) -> None:
        self.partitions.insert(1, share.ts)
        self.orders.insert(share.orders, share.ts)
        self.cents.insert(share.cents, share.ts)

    @on_window(orders, scope="global")
    async def minute(self, window: Window, ctx: Context) -> None:
        partitions = await self.partitions.window_value(window)
        orders, cents = await self.orders.window_value(window), await self.cents.window_value(window)
        ctx.emit(Minute(window.start_ms, partitions, orders, cents))


up = Job("chained-up", Source("orders", Json(Order), timestamp=lambda order: order.ts), price, output="chained-priced")
mid = Job(
    "chained-mid",
    Source("chained-priced", Json(Priced), timestamp=lambda priced: priced.ts),
    Shares,
    output="chained-shares",
)
down = Job(
    "chained-down",
    Source("chained-shares", Json(Share), timestamp=lambda share: share.ts),
    Minutes,
    output="chained-by-minute",
)
