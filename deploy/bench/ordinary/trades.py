"""Trades with ISO times in ns: volume and the highest price of each of 50 symbols."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, Max, RecordOf


class Trade(msgspec.Struct):
    time: str
    symbol: str
    price: float
    quantity: int


class Trades(ProcessingFunction[Trade]):
    seen = WCRDT(MapOf(RecordOf(volume=GCounter(), high=Max())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Trade], ctx: Context) -> None:
        self.seen.insert_many((batch["symbol"], (batch["quantity"], batch["price"])), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for symbol, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "symbol": symbol, **one})


class ByRecord(Trades):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Trade, ctx: Context) -> None:
        time_ms = int(datetime.fromisoformat(event.time).timestamp() * 1000)
        self.seen.insert((event.symbol, (event.quantity, event.price)), time_ms)


job = Job(
    "trades", Source("trades", JsonColumns(Trade), timestamp="time", timestamp_unit="iso"), Trades, output="trades-out"
)
by_record = Job(
    "trades-by-record",
    Source("trades", Json(Trade), timestamp=lambda event: event.time, timestamp_unit="iso"),
    ByRecord,
    output="trades-out",
)


class Row(msgspec.Struct):
    window_start: int
    symbol: str
    volume: int
    high: float


def result(group: Group[str, Trade]) -> Row:
    volume, high = group.sum(lambda trade: trade.quantity), group.max(lambda trade: trade.price)
    return Row(group.window.start_ms, group.key, volume, high)


flow = Flow("trades-flow", columnar=True)
_trades = flow.source("trades", Json(Trade), time=lambda trade: trade.time, unit="iso")
_trades.key_by(lambda trade: trade.symbol).window(Tumbling.of(seconds=10)).agg(result).sink("trades-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    begin = int(datetime(2025, 7, 20, 10, tzinfo=UTC).timestamp())
    for number in count():
        second, ns = divmod(number * 100_003, 10**9)
        at = datetime.fromtimestamp(begin + second, UTC)
        row = {
            "time": f"{at:%Y-%m-%dT%H:%M:%S}.{ns:09d}Z",
            "symbol": f"SYM{draw.randrange(50)}",
            "price": round(draw.uniform(10, 900), 4),
            "quantity": draw.randrange(1, 1000),
            "venue": "XSWX",
            "id": number,
        }
        yield json.dumps(row, separators=(",", ":")).encode()
