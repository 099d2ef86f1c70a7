"""Query 1 of the Holon paper (section 2.2): which share of a window's bids did this partition process?"""

import msgspec

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, WLocal, on_window
from wcrdt import GCounter


class Bid(msgspec.Struct):
    """The one field that matters here; others in the JSON are skipped."""

    ts: int


class Share(msgspec.Struct):
    partition: int
    window: int
    local: int
    total: int


class Query1(ProcessingFunction[Bid]):
    """A count that all partitions share, and one that each keeps for itself."""

    total = WCRDT(GCounter(), Tumbling.of(seconds=10))
    local = WLocal(GCounter(), Tumbling.of(seconds=10))

    def process(self, bid: Bid, ctx: Context) -> None:
        self.total.insert(1, bid.ts)
        self.local.insert(1, bid.ts)

    @on_window(total)
    async def share(self, window: Window, ctx: Context) -> None:
        local = await self.local.window_value(window)
        total = await self.total.window_value(window)
        ctx.emit(Share(ctx.partition, window.start_ms, local, total))


job = Job(
    "query1",
    Source("bids", Json(Bid), timestamp=lambda bid: bid.ts),
    Query1,
    output="shares",
)
