"""Stock ticks keyed by exchange and symbol: count, highest and lowest price of each of 400 pairs."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, Max, Min, RecordOf


class Tick(msgspec.Struct):
    exchange: str
    symbol: str
    price: float
    ts: int


class Ticks(ProcessingFunction[Tick]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), high=Max(), low=Min())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Tick], ctx: Context) -> None:
        keys, prices = (batch["exchange"], batch["symbol"]), batch["price"]
        self.seen.insert_many((keys, (batch.ts_ms * 0 + 1, prices, prices)), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for (exchange, symbol), one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "exchange": exchange, "symbol": symbol, **one})


class ByRecord(Ticks):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Tick, ctx: Context) -> None:
        key, price = (event.exchange, event.symbol), event.price
        self.seen.insert((key, (1, price, price)), event.ts)


job = Job("ticks", Source("ticks", JsonColumns(Tick), timestamp="ts"), Ticks, output="ticks-out")
by_record = Job(
    "ticks-by-record",
    Source("ticks", Json(Tick), timestamp=lambda event: event.ts),
    ByRecord,
    output="ticks-out",
)


class Row(msgspec.Struct):
    window_start: int
    exchange: str
    symbol: str
    count: int
    high: float
    low: float


def result(group: Group[tuple[str, str], Tick]) -> Row:
    exchange, symbol = group.key
    high, low = group.max(lambda tick: tick.price), group.min(lambda tick: tick.price)
    return Row(group.window.start_ms, exchange, symbol, group.count(), high, low)


flow = Flow("ticks-flow", columnar=True)
_ticks = flow.source("ticks", Json(Tick), time=lambda tick: tick.ts)
_ticks.key_by(lambda tick: (tick.exchange, tick.symbol)).window(Tumbling.of(seconds=10)).agg(result).sink("ticks-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        row = {
            "exchange": draw.choice(("XSWX", "XNAS", "XLON", "XTKS")),
            "symbol": f"S{draw.randrange(100)}",
            "price": round(draw.uniform(1, 500), 2),
            "size": draw.randrange(1, 900),
            "ts": 1_753_000_000_000 + number // 10,
        }
        names = list(row)
        draw.shuffle(names)
        yield json.dumps({name: row[name] for name in names}, separators=(",", ":")).encode()
