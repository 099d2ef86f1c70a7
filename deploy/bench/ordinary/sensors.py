"""Readings of sensors: count and maximum of a float for each of 1,000 keys; texts that are not ASCII."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, Max, RecordOf


class Reading(msgspec.Struct):
    sensor: str
    value: float
    ts: int


class Sensors(ProcessingFunction[Reading]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), top=Max())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        self.seen.insert_many((batch["sensor"], (batch.ts_ms * 0 + 1, batch["value"])), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for sensor, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "sensor": sensor, "count": one["count"], "top": one["top"]})


class ByRecord(Sensors):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Reading, ctx: Context) -> None:
        self.seen.insert((event.sensor, (1, event.value)), event.ts)


job = Job("sensors", Source("sensors", JsonColumns(Reading), timestamp="ts"), Sensors, output="sensors-out")
by_record = Job(
    "sensors-by-record",
    Source("sensors", Json(Reading), timestamp=lambda event: event.ts),
    ByRecord,
    output="sensors-out",
)


class Row(msgspec.Struct):
    window_start: int
    sensor: str
    count: int
    top: float


def result(group: Group[str, Reading]) -> Row:
    return Row(group.window.start_ms, group.key, group.count(), group.max(lambda reading: reading.value))


flow = Flow("sensors-flow", columnar=True)
_readings = flow.source("sensors", Json(Reading), time=lambda reading: reading.ts)
_readings.key_by(lambda reading: reading.sensor).window(Tumbling.of(seconds=10)).agg(result).sink("sensors-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        row = {
            "sensor": f"sensor-{draw.randrange(1000)}",
            "value": round(draw.uniform(0, 100), 3),
            "ts": 1_753_000_000_000 + number // 10,
            "name": "Zürich Süd",
            "place": {"lat": 47.3769, "lon": round(draw.uniform(8, 9), 4)},
        }
        if number % 2:
            row["note"] = "checked"
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
