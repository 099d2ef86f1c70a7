"""The ten items that sold best in each minute, over all partitions: as a processing function, and as a flow."""

import heapq

import msgspec

from holon import (
    WCRDT,
    Batch,
    BoundedOutOfOrderness,
    Context,
    Job,
    Json,
    JsonColumns,
    ProcessingFunction,
    Source,
    Tumbling,
    Window,
    on_window,
)
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf


class Sale(msgspec.Struct):
    ts: int
    item: str
    quantity: int


class TopItems(ProcessingFunction[Sale]):
    """``sold`` holds a count for each item; the ten best of it are only known when the window is complete."""

    sold = WCRDT(MapOf[str, int, int](GCounter()), Tumbling.of(minutes=1))

    def process_batch(self, batch: Batch[Sale], ctx: Context) -> None:
        self.sold.insert_many((batch["item"], batch["quantity"]), batch.ts_ms)

    @on_window(sold, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        sold = await self.sold.window_value(window)
        best = heapq.nsmallest(10, sold.items(), key=lambda entry: (-entry[1], entry[0]))
        for rank, (item, quantity) in enumerate(best, start=1):
            ctx.emit({"window": window.start_ms, "rank": rank, "item": item, "quantity": quantity})


job = Job(
    "top-items",
    Source("sales", JsonColumns(Sale), timestamp="ts", watermarks=BoundedOutOfOrderness(2_000)),
    TopItems,
    output="top-items-by-minute",
)


class Sold(msgspec.Struct):
    window: int
    item: str
    quantity: int


def sold(group: Group[str, Sale]) -> Sold:
    return Sold(group.window.start_ms, group.key, group.sum(lambda sale: sale.quantity))


flow = Flow("top-items-flow")
sales = flow.source("sales", Json(Sale), time=lambda sale: sale.ts, out_of_order="2s")
by_item = sales.key_by(lambda sale: sale.item).window(Tumbling("1m")).agg(sold)
by_item.top(10, by=lambda one: one.quantity).sink("top-items-flow-by-minute")
