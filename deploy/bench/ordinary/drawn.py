"""Records of a schema that is drawn from the seed; only three of its fields are used: a key, a value and a time."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, Max, RecordOf


class Used(msgspec.Struct):
    key: int
    value: int | None
    ts: int


class Drawn(ProcessingFunction[Used]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), top=Max())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Used], ctx: Context) -> None:
        ones, values = batch.ts_ms * 0 + 1, batch.filled("value", 0)
        self.seen.insert_many((batch["key"], (ones, values)), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for key, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "key": key, **one})


class ByRecord(Drawn):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Used, ctx: Context) -> None:
        self.seen.insert((event.key, (1, 0 if event.value is None else event.value)), event.ts)


job = Job("drawn", Source("drawn", JsonColumns(Used), timestamp="ts"), Drawn, output="drawn-out")
by_record = Job(
    "drawn-by-record",
    Source("drawn", Json(Used), timestamp=lambda event: event.ts),
    ByRecord,
    output="drawn-out",
)


class Valued(msgspec.Struct):
    key: int
    value: int


class Row(msgspec.Struct):
    window_start: int
    key: int
    count: int
    top: int


def valued(used: Used) -> Valued:
    return Valued(used.key, 0 if used.value is None else used.value)


def result(group: Group[int, Valued]) -> Row:
    return Row(group.window.start_ms, group.key, group.count(), group.max(lambda used: used.value))


flow = Flow("drawn-flow", columnar=True)
_used = flow.source("drawn", Json(Used), time=lambda used: used.ts).map(valued)
_used.key_by(lambda used: used.key).window(Tumbling.of(seconds=10)).agg(result).sink("drawn-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    kinds: dict[str, Callable[[], Any]] = {
        "int": lambda: draw.randrange(-(10**12), 10**12),
        "float": draw.random,
        "text": lambda: "é\\n" * draw.randrange(5),
        "bool": lambda: draw.random() < 0.5,
        "null": lambda: None,
        "list": lambda: [1, [2.5, "x"], {}],
        "object": lambda: {"key": 1, "deep": {"ts": None}},
    }
    schema = [(f"field_{number}", draw.choice(sorted(kinds))) for number in range(draw.randrange(2, 16))]
    order = [name for name, _ in schema] + ["key", "value", "ts"]
    draw.shuffle(order)
    for number in count():
        row = {name: kinds[kind]() for name, kind in schema}
        row |= {
            "key": draw.randrange(1000),
            "value": draw.choice((None, draw.randrange(10**9))),
            "ts": 1_753_000_000_000 + number // 10,
        }
        yield json.dumps({name: row[name] for name in order}, separators=(",", ":")).encode()
