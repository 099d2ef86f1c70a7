"""Devices whose records come up to 60 s late and are broken at times: count and maximum of each of 100."""

import json
import random
from collections.abc import Iterator
from itertools import count

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
from wcrdt import GCounter, MapOf, Max, RecordOf


class Measured(msgspec.Struct):
    device: str
    temperature: float
    ts: int


class Devices(ProcessingFunction[Measured]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), top=Max())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Measured], ctx: Context) -> None:
        self.seen.insert_many((batch["device"], (batch.ts_ms * 0 + 1, batch["temperature"])), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for device, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "device": device, **one})


class ByRecord(Devices):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Measured, ctx: Context) -> None:
        self.seen.insert((event.device, (1, event.temperature)), event.ts)


job = Job(
    "iot",
    Source("iot", JsonColumns(Measured), timestamp="ts", watermarks=BoundedOutOfOrderness(60_000)),
    Devices,
    output="iot-out",
)
by_record = Job(
    "iot-by-record",
    Source("iot", Json(Measured), timestamp=lambda event: event.ts, watermarks=BoundedOutOfOrderness(60_000)),
    ByRecord,
    output="iot-out",
)


class Row(msgspec.Struct):
    window_start: int
    device: str
    count: int
    top: float


def result(group: Group[str, Measured]) -> Row:
    return Row(group.window.start_ms, group.key, group.count(), group.max(lambda measured: measured.temperature))


flow = Flow("iot-flow", columnar=True)
_measured = flow.source("iot", Json(Measured), time=lambda measured: measured.ts, out_of_order="60s")
_measured.key_by(lambda measured: measured.device).window(Tumbling.of(seconds=10)).agg(result).sink("iot-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        late_ms = draw.randrange(60_000) if draw.random() < 0.1 else 0
        row = {
            "device": f"device-{draw.randrange(100)}",
            "temperature": round(draw.uniform(-20, 60), 2),
            "ts": 1_753_000_060_000 + number // 10 - late_ms,
            "battery": draw.randrange(101),
            "firmware": "2.1.7",
        }
        text = json.dumps(row, separators=(",", ":")).encode()
        broken = draw.random()
        if broken < 0.005:
            text = text[: len(text) // 2]
        elif broken < 0.01:
            text = text.replace(b'"temperature":', b'"temperature":"hot","t":')
        yield text
