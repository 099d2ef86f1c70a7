"""Web clicks with arrays: how many clicks and tags each of 500 pages got, and the most tags at once."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, Max, RecordOf


class Click(msgspec.Struct):
    page: str
    tags: list[str]
    ts: int


class Clicks(ProcessingFunction[Click]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), tags=GCounter(), most=Max())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Click], ctx: Context) -> None:
        ones = batch.ts_ms * 0 + 1
        tags = batch.lengths("tags")
        self.seen.insert_many((batch["page"], (ones, tags, tags)), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for page, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "page": page, **one})


class ByRecord(Clicks):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Click, ctx: Context) -> None:
        tags = len(event.tags)
        self.seen.insert((event.page, (1, tags, tags)), event.ts)


job = Job("clicks", Source("clicks", JsonColumns(Click), timestamp="ts"), Clicks, output="clicks-out")
by_record = Job(
    "clicks-by-record",
    Source("clicks", Json(Click), timestamp=lambda event: event.ts),
    ByRecord,
    output="clicks-out",
)


class Row(msgspec.Struct):
    window_start: int
    page: str
    count: int
    tags: int
    most: int


def result(group: Group[str, Click]) -> Row:
    tags, most = group.sum(lambda click: len(click.tags)), group.max(lambda click: len(click.tags))
    return Row(group.window.start_ms, group.key, group.count(), tags, most)


flow = Flow("clicks-flow", columnar=True)
_clicks = flow.source("clicks", Json(Click), time=lambda click: click.ts)
_clicks.key_by(lambda click: click.page).window(Tumbling.of(seconds=10)).agg(result).sink("clicks-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        row = {
            "session": f"{draw.getrandbits(64):016x}",
            "page": f"/shop/{draw.randrange(500)}",
            "tags": [f"tag-{draw.randrange(90)}" for _ in range(draw.randrange(6))],
            "ts": 1_753_000_000_000 + number // 10,
            "screen": [draw.choice((1280, 1920, 2560)), 1080],
            "referrer": "https://example.org/?q=caf\u00e9",
        }
        yield json.dumps(row, separators=(",", ":")).encode()
