"""Lines of logs with free text and ISO times: by service, how many lines there are and how many are of errors."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import msgspec
import numpy as np

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, RecordOf


class Line(msgspec.Struct):
    time: str
    service: str
    level: str
    message: str


class Logs(ProcessingFunction[Line]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), errors=GCounter())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Line], ctx: Context) -> None:
        ones = batch.ts_ms * 0 + 1
        errors = np.fromiter((level == "ERROR" for level in batch["level"]), np.int64, len(batch))
        self.seen.insert_many((batch["service"], (ones, errors)), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for service, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "service": service, **one})


class ByRecord(Logs):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Line, ctx: Context) -> None:
        time_ms = int(datetime.fromisoformat(event.time).timestamp() * 1000)
        self.seen.insert((event.service, (1, int(event.level == "ERROR"))), time_ms)


job = Job("logs", Source("logs", JsonColumns(Line), timestamp="time", timestamp_unit="iso"), Logs, output="logs-out")
by_record = Job(
    "logs-by-record",
    Source("logs", Json(Line), timestamp=lambda event: event.time, timestamp_unit="iso"),
    ByRecord,
    output="logs-out",
)


class Row(msgspec.Struct):
    window_start: int
    service: str
    count: int
    errors: int


def result(group: Group[str, Line]) -> Row:
    errors = group.sum(lambda line: 1 if line.level == "ERROR" else 0)
    return Row(group.window.start_ms, group.key, group.count(), errors)


flow = Flow("logs-flow", columnar=True)
_lines = flow.source("logs", Json(Line), time=lambda line: line.time, unit="iso")
_lines.key_by(lambda line: line.service).window(Tumbling.of(seconds=10)).agg(result).sink("logs-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    texts = (
        "connected to \u201cdb\u201d",
        'a "quoted" word',
        "C:\\temp\\x",
        "Grüße, 東京 🚀",
        "timeout after 30 s\nretrying",
    )
    begin = datetime(2025, 7, 20, 10, tzinfo=UTC).timestamp()
    for number in count():
        at = datetime.fromtimestamp(begin + number // 100 / 100, UTC)
        row = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "service": f"service-{draw.randrange(40)}",
            "level": draw.choice(("INFO", "INFO", "WARN", "ERROR")),
            "message": f"{draw.choice(texts)} #{draw.randrange(10**6)}",
            "thread": draw.randrange(64),
        }
        yield json.dumps(row, ensure_ascii=draw.random() < 0.5, separators=(",", ":")).encode()
