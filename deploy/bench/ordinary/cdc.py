"""Changes of a table with null values: how many of each kind, and the sum of the new balances that there are."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, RecordOf


class Account(msgspec.Struct):
    region: str
    balance: int | None


class Change(msgspec.Struct):
    op: str
    ts_ms: int
    after: Account | None = None


class Changes(ProcessingFunction[Change]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), balance=GCounter())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Change], ctx: Context) -> None:
        ones, balances = batch.ts_ms * 0 + 1, batch.filled("after.balance", 0)
        self.seen.insert_many((batch["op"], (ones, balances)), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for op, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "op": op, **one})


class ByRecord(Changes):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Change, ctx: Context) -> None:
        after = event.after
        self.seen.insert((event.op, (1, 0 if after is None or after.balance is None else after.balance)), event.ts_ms)


job = Job("cdc", Source("cdc", JsonColumns(Change), timestamp="ts_ms"), Changes, output="cdc-out")
by_record = Job(
    "cdc-by-record",
    Source("cdc", Json(Change), timestamp=lambda event: event.ts_ms),
    ByRecord,
    output="cdc-out",
)


class Changed(msgspec.Struct):
    op: str
    balance: int


class Row(msgspec.Struct):
    window_start: int
    op: str
    count: int
    balance: int


def changed(change: Change) -> Changed:
    after = change.after
    return Changed(change.op, 0 if after is None or after.balance is None else after.balance)


def result(group: Group[str, Changed]) -> Row:
    return Row(group.window.start_ms, group.key, group.count(), group.sum(lambda change: change.balance))


flow = Flow("cdc-flow", columnar=True)
_changes = flow.source("cdc", Json(Change), time=lambda change: change.ts_ms).map(changed)
_changes.key_by(lambda change: change.op).window(Tumbling.of(seconds=10)).agg(result).sink("cdc-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""

    def account() -> dict:
        return {
            "id": draw.randrange(10**6),
            "region": draw.choice(("ZH", "GE", "BS")),
            "owner": None,
            "balance": draw.choice((None, draw.randrange(10**6))),
        }

    for number in count():
        op = draw.choice("cuud")
        row = {
            "op": op,
            "before": None if op == "c" else account(),
            "after": None if op == "d" else account(),
            "ts_ms": 1_753_000_000_000 + number // 10,
            "source": {"table": "accounts", "lsn": number, "snapshot": None},
        }
        yield json.dumps(row, separators=(",", ":")).encode()
