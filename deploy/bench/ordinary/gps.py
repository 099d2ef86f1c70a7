"""Positions with floats only, times too: count, highest speed and average over all."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import Average, GCounter, Max, Min, RecordOf


class Position(msgspec.Struct):
    lat: float
    lon: float
    speed: float
    t: float


class Positions(ProcessingFunction[Position]):
    seen = WCRDT(RecordOf(count=GCounter(), top=Max(), south=Min(), mean=Average()), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Position], ctx: Context) -> None:
        ones = batch.ts_ms * 0 + 1
        self.seen.insert_many((ones, batch["speed"], batch["lat"], batch["speed"]), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit({"window_start": window.start_ms, **(await self.seen.window_value(window))})


class ByRecord(Positions):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Position, ctx: Context) -> None:
        self.seen.insert((1, event.speed, event.lat, event.speed), int(event.t * 1000))


job = Job("gps", Source("gps", JsonColumns(Position), timestamp="t", timestamp_unit="s"), Positions, output="gps-out")
by_record = Job(
    "gps-by-record",
    Source("gps", Json(Position), timestamp=lambda event: event.t, timestamp_unit="s"),
    ByRecord,
    output="gps-out",
)


class Row(msgspec.Struct):
    window_start: int
    count: int
    top: float
    south: float
    mean: float


def result(group: Group[None, Position]) -> Row:
    top, south = group.max(lambda position: position.speed), group.min(lambda position: position.lat)
    return Row(group.window.start_ms, group.count(), top, south, group.mean(lambda position: position.speed))


flow = Flow("gps-flow", columnar=True)
_positions = flow.source("gps", Json(Position), time=lambda position: position.t, unit="s")
_positions.window(Tumbling.of(seconds=10)).agg(result).sink("gps-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        row = {
            "lat": round(draw.uniform(45.8, 47.8), 6),
            "lon": round(draw.uniform(5.9, 10.5), 6),
            "alt": round(draw.uniform(200, 4000), 1),
            "speed": round(draw.uniform(0.5, 140), 2),
            "t": 1_753_000_000 + number // 1250 / 8,
        }
        yield json.dumps(row, separators=(",", ":")).encode()
