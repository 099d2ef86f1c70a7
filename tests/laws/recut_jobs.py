"""Jobs that use every part of the API at once, and traces of records of every kind, for the laws of re-cutting."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from holon import (
    WCRDT,
    Batch,
    BoundedOutOfOrderness,
    Context,
    Job,
    Json,
    JsonColumns,
    Local,
    ManualWatermarks,
    Output,
    ProcessingFunction,
    Source,
    Tumbling,
    Window,
    WLocal,
    on_window,
)
from wcrdt import GCounter, GSet, MapOf, TopK

DELAY_MS = 4


class Event(msgspec.Struct):
    """``boom`` makes the function raise, after it has done half of its work."""

    ts: int
    key: str
    amount: int
    skip: bool = False
    boom: bool = False


class Boom(Exception):
    pass


class Answers(ProcessingFunction[Event]):
    """The states, and what happens when their windows are complete."""

    totals = WCRDT(MapOf[str, int, int](GCounter()), Tumbling(10))
    top = WCRDT(TopK(3), Tumbling(25))
    keys = WCRDT(GSet[str](), Tumbling(10, offset_ms=5))
    mine = WLocal(GCounter(), Tumbling(10))
    per_fifty = WCRDT(GCounter(), Tumbling(50), stage=1)
    seen = Local[dict[str, int]]({})
    answered = Local(0, track="window")

    @on_window(totals)
    async def close(self, window: Window, ctx: Context) -> None:
        self.answered.value += 1
        totals = await self.totals.window_value(window)
        ctx.emit([window.start_ms, totals, await self.mine.window_value(window), self.answered.value])
        self.per_fifty.insert(sum(totals.values()), ctx.timestamp_ms)

    @on_window(totals, scope="global")
    async def close_once(self, window: Window, ctx: Context) -> None:
        for key, total in (await self.totals.window_value(window)).items():
            ctx.emit([window.start_ms, key, total], output="routed", key=key.encode())

    @on_window(top)
    @on_window(keys)
    async def close_top(self, window: Window, ctx: Context) -> None:
        if window.end_ms % 25 == 0:
            ctx.emit(["top", window.start_ms, await self.top.window_value(window)])

    @on_window(mine)
    async def close_mine(self, window: Window, ctx: Context) -> None:
        ctx.emit(["mine", window.start_ms, await self.mine.window_value(window)])

    @on_window(per_fifty)
    async def close_fifty(self, window: Window, ctx: Context) -> None:
        ctx.emit(["fifty", window.start_ms, await self.per_fifty.window_value(window)])


class PerRecord(Answers):
    def process(self, event: Event, ctx: Context) -> None:
        ts = ctx.timestamp_ms
        self.totals.insert((event.key, event.amount), ts)
        self.top.insert((event.amount, event.key), ts)
        nth = self.seen.value[event.key] = self.seen.value.get(event.key, 0) + 1
        ctx.emit([event.key, nth])
        if event.boom:
            raise Boom(event.key)
        self.keys.insert(event.key, ts)
        self.mine.insert(1, ts)
        if event.amount % 3 == 0:
            ctx.emit([event.key, "third"])
            ctx.emit(event.amount, output="routed", key=event.key.encode())


class PerBatch(Answers):
    """The same, by columns; its results leave in another order and must be numbered alike."""

    def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
        keys, amounts = batch["key"], batch["amount"]
        self.totals.insert_many((keys, amounts), batch.ts_ms)
        self.top.insert_many((amounts, keys), batch.ts_ms)
        nths = []
        for key in keys:
            self.seen.value[key] = self.seen.value.get(key, 0) + 1
            nths.append([key, self.seen.value[key]])
        ctx.emit_many(nths)
        if batch["boom"].any():
            raise Boom(keys[int(batch["boom"].argmax())])
        self.keys.insert_many(keys, batch.ts_ms)
        self.mine.insert_many(np.ones(len(batch), dtype=np.int64), batch.ts_ms)
        thirds = np.flatnonzero(amounts % 3 == 0)[::-1]
        for row in thirds.tolist():
            ctx.emit([keys[row], "third"], row=row)
        ctx.emit_many(amounts[thirds], thirds, output="routed", keys=[keys[row].encode() for row in thirds.tolist()])


class Awaiting(Answers):
    """Per record, and each record that completes a window waits for its value."""

    told = Local(-1)

    def __init__(self, lateness_ms: int) -> None:
        self.lateness_ms = lateness_ms

    async def process(self, event: Event, ctx: Context) -> None:
        ts = ctx.timestamp_ms
        self.totals.insert((event.key, event.amount), ts)
        self.mine.insert(1, ts)
        if event.boom:
            raise Boom(event.key)
        end = (ts - DELAY_MS - self.lateness_ms) // 10 * 10
        ctx.emit([event.key, end])
        if end > self.told.value:
            self.told.value = end
            window = Window(end - 10, end)
            totals = await self.totals.window_value(window)
            self.seen.value |= totals
            taken = self.top.insert((event.amount, event.key), ts)
            ctx.emit([end, totals, await self.mine.window_value(window), taken])


class Promising(PerRecord):
    """Watermarks come from the function itself, and may run ahead of records that follow."""

    def process(self, event: Event, ctx: Context) -> None:
        super().process(event, ctx)
        if event.amount % 2 == 0:
            self.totals.increment_watermark(event.ts - event.amount % 5)


def source(batches: bool, manual: bool) -> Source[Event]:
    watermarks = ManualWatermarks() if manual else BoundedOutOfOrderness(DELAY_MS)
    if batches:
        return Source("events", JsonColumns(Event), "ts", filter=lambda c: ~c["skip"], watermarks=watermarks)
    return Source("events", Json(Event), lambda e: e.ts, filter=lambda e: not e.skip, watermarks=watermarks)


def job(function: type[Answers], *, lateness_ms: int = 0, on_error: Any = "fail") -> Job[Event]:
    return Job(
        "recut",
        source(function is PerBatch, function is Promising),
        Awaiting(lateness_ms) if function is Awaiting else function,
        output="out",
        side_outputs={"routed": Output("routed", route_by_key=True, partitions=3)},
        allowed_lateness_ms=lateness_ms,
        on_error=on_error,
        window_retention_ms=1_000,
    )


# --- traces -----------------------------------------------------------------------------------------------------------

_KINDS = ["ok"] * 8 + ["skip", "boom", "garbled", "timeless", "absurd"]


@st.composite
def payloads(draw: st.DrawFn, failing: bool) -> list[bytes]:
    """One partition's records: mostly in order, some late, filtered, undecodable, without time, or making it fail."""
    steps = draw(st.lists(st.tuples(st.sampled_from(_KINDS), st.integers(-12, 14), st.integers(0, 9)), max_size=14))
    time, made = 0, []
    for kind, step, amount in steps:
        time += max(step, 0)
        event: dict[str, Any] = {"ts": time + min(step, 0), "key": "abc"[amount % 3], "amount": amount}
        event |= {"skip": True} if kind == "skip" else {"boom": True} if kind == "boom" and failing else {}
        event |= {"ts": None} if kind == "timeless" else {"ts": 2**60} if kind == "absurd" else {}
        made.append(b"\xff{" if kind == "garbled" else json.dumps(event).encode())
    return made


def inputs(failing: bool = False, partitions: int = 2) -> st.SearchStrategy[list[list[bytes]]]:
    return st.lists(payloads(failing), min_size=partitions, max_size=partitions)
