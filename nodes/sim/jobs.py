"""The jobs under test, small. Their results are computed a second time, without Holon, in ``expected.py``."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from holon import (
    WCRDT,
    Batch,
    BoundedOutOfOrderness,
    Context,
    GlobalWindow,
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
from nodes.sim.case import FOURTH_SEED, TOPIC, Case
from nodes.sim.driven.cases import cases_driven_by_data
from nodes.sim.failing import jobs as failing
from nodes.sim.flows.cases import cases_of_flows
from nodes.sim.flows.jobs import Given, idle_timeout_ms
from nodes.sim.joins.cases import cases_of_joins
from nodes.sim.keyed.cases import cases_by_key
from wcrdt.lattices.counters import GCounter
from wcrdt.lattices.maps import MapOf
from wcrdt.lattices.max_by import MaxBy

if TYPE_CHECKING:
    from nodes.sim.options import Options

OUTPUT = "results"
MAX_FUTURE_SKEW_MS = 5000


class Event(msgspec.Struct):
    """``mark``: the function of some jobs fails at it."""

    ts: int
    id: int
    key: int
    amount: int
    mark: bool = False


def _job(options: Options, process: Any, **settings: Any) -> Job:
    case = CASES[options.case]
    formats = settings.pop("format", Json(Event))
    source = Source(
        TOPIC,
        formats,
        timestamp=attrgetter("ts") if isinstance(formats, Json) else "ts",
        watermarks=ManualWatermarks() if case.manual else BoundedOutOfOrderness(options.delay_ms),
        max_future_skew_ms=MAX_FUTURE_SKEW_MS if case.guarded else None,
        idle_timeout_ms=idle_timeout_ms(options) if case.idle else None,
    )
    return Job(
        options.case,
        source,
        process,
        output=settings.pop("output", OUTPUT),
        allowed_lateness_ms=case.late_by * options.window_ms,
        on_error="dead-letter" if case.buries else "fail",
        **settings,
    )


def _count(options: Options) -> Job:
    """How many records a window has, once for all partitions."""

    class Count(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(options.window_ms))

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event.ts)

        @on_window(count, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})

    return _job(options, Count)


def _count_all(options: Options) -> Job:
    """Beside the counts a state that never closes, so that no record as a whole is ever late."""

    class CountAll(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(options.window_ms))
        everything = WCRDT(GCounter(), GlobalWindow())

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event.ts)
            self.everything.insert(1, event.ts)

        @on_window(count, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})

        @on_window(everything, scope="global")
        async def report_all(self, window: Window, ctx: Context) -> None:
            ctx.emit({"all": await self.everything.window_value(window)})

    return _job(options, CountAll)


def _manual(options: Options) -> Job:
    """Every third record advances the watermark."""

    class Manual(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(options.window_ms))

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event.ts)
            if event.id % 3 == 0:
                self.count.increment_watermark(event.ts)

        @on_window(count, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})

    return _job(options, Manual)


def _max_ties(options: Options) -> Job:
    """The largest amount of a window and all records that have it."""

    class MaxTies(ProcessingFunction[Event]):
        best = WCRDT(MaxBy(ties="all"), Tumbling(options.window_ms))

        def process(self, event: Event, ctx: Context) -> None:
            self.best.insert((event.amount, event.id), event.ts)

        @on_window(best, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            best = await self.best.window_value(window)
            assert best is not None
            ctx.emit({"end": window.end_ms, "amount": best[0], "ids": sorted(best[1])})

    return _job(options, MaxTies)


def _query1(options: Options) -> Job:
    """Holon, Query 1: what each partition has of the whole."""

    class Query1(ProcessingFunction[Event]):
        local = WLocal(GCounter(), Tumbling(options.window_ms))
        total = WCRDT(GCounter(), Tumbling(options.window_ms))

        def process(self, event: Event, ctx: Context) -> None:
            self.local.insert(event.amount, event.ts)
            self.total.insert(event.amount, event.ts)

        @on_window(total)
        async def report(self, window: Window, ctx: Context) -> None:
            local, total = await self.local.window_value(window), await self.total.window_value(window)
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "local": local, "total": total})

    return _job(options, Query1)


def _two_stages(options: Options) -> Job:
    """Windows of windows: stage 1 sums what stage 0 has answered; the responsible partition adds the count."""

    class TwoStages(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(options.window_ms))
        sums = WCRDT(GCounter(), Tumbling(3 * options.window_ms), stage=1)

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event.ts)

        @on_window(count)
        async def up(self, window: Window, ctx: Context) -> None:
            mine = ctx.is_responsible_for(window)
            value = await self.count.window_value(window) if mine else 1000
            self.sums.insert(value, window.start_ms)
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "value": value if mine else 0})

        @on_window(sums)
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "sum": await self.sums.window_value(window)})

    return _job(options, TwoStages)


def _running(options: Options) -> Job:
    """A total over all windows so far, in the window track's own memory."""

    class Running(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(options.window_ms))
        total = Local(0, track="window")

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event.ts)

        @on_window(count)
        async def report(self, window: Window, ctx: Context) -> None:
            self.total.value += await self.count.window_value(window)
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "total": self.total.value})

    return _job(options, Running)


def _read_back(options: Options) -> Job:
    """Each window beside the two before it."""
    size = options.window_ms

    class ReadBack(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(size))

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, event.ts)

        @on_window(count)
        async def report(self, window: Window, ctx: Context) -> None:
            counts = [
                await self.count.window_value(Window(window.start_ms - back * size, window.end_ms - back * size))
                for back in range(3)
            ]
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "counts": counts})

    return _job(options, ReadBack, window_retention_ms=2 * size)


def _own_windows(options: Options) -> Job:
    """Windows that no other partition knows of."""

    class OwnWindows(ProcessingFunction[Event]):
        local = WLocal(GCounter(), Tumbling(options.window_ms))

        def process(self, event: Event, ctx: Context) -> None:
            self.local.insert(1, event.ts)

        @on_window(local)
        async def report(self, window: Window, ctx: Context) -> None:
            value = await self.local.window_value(window)
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "count": value})

    return _job(options, OwnWindows)


def _awaiting(options: Options) -> Job:
    """A record that completes windows on its partition waits for the newest of them, and emits its value."""
    size, delay = options.window_ms, options.delay_ms

    class Awaiting(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(size))

        async def process(self, event: Event, ctx: Context) -> None:
            before = ctx.watermark_ms
            self.count.insert(1, event.ts)
            end = max(before, event.ts - delay) // size * size
            if end > before:
                count = await self.count.window_value(Window(end - size, end))
                ctx.emit({"id": event.id, "end": end, "count": count})

    return _job(options, Awaiting)


def _dedupe(options: Options) -> Job:
    """The first record of each key on its partition."""

    class Dedupe(ProcessingFunction[Event]):
        seen = Local({}, type=dict[int, int])

        def process(self, event: Event, ctx: Context) -> None:
            if event.key not in self.seen.value:
                self.seen.value[event.key] = event.id
                ctx.emit({"partition": ctx.partition, "key": event.key, "id": event.id})

    return _job(options, Dedupe)


def _stateless(options: Options) -> Job:
    """A map and nothing else."""

    def convert(event: Event, ctx: Context) -> None:
        ctx.emit({"id": event.id, "double": 2 * event.amount})

    return _job(options, convert)


def _batch(options: Options) -> Job:
    """Columns: one result a row, and counts by key."""

    class ByBatch(ProcessingFunction[Event]):
        by_key = WCRDT(MapOf(GCounter()), Tumbling(options.window_ms))

        def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
            amounts = batch["amount"]
            ctx.emit_many([{"id": i, "amount": a} for i, a in zip(batch["id"].tolist(), amounts.tolist(), strict=True)])
            self.by_key.insert_many((batch["key"], amounts), batch.ts_ms)

        @on_window(by_key, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            value = await self.by_key.window_value(window)
            ctx.emit({"end": window.end_ms, "amounts": sorted([key, amount] for key, amount in value.items())})

    return _job(options, ByBatch, format=JsonColumns(Event))


def _routed(options: Options) -> Job:
    """Results of both tracks go to the output partition of their key."""

    class Routed(ProcessingFunction[Event]):
        by_key = WCRDT(MapOf(GCounter()), Tumbling(options.window_ms))

        def process(self, event: Event, ctx: Context) -> None:
            self.by_key.insert((event.key, event.amount), event.ts)
            ctx.emit({"id": event.id, "key": event.key}, key=str(event.key).encode())

        @on_window(by_key, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            for key, amount in sorted((await self.by_key.window_value(window)).items()):
                ctx.emit({"end": window.end_ms, "key": key, "amount": amount}, key=str(key).encode())

    return _job(options, Routed, output=Output(OUTPUT, route_by_key=True, partitions=options.output_partitions))


FOR_FLOWS = Given(Event, TOPIC, OUTPUT, second_topic="orders")
_BURY_WINDOWS = Case(lambda o: _job(o, failing.windows(o)), buries=True, further_windows=(3,), since=FOURTH_SEED)

CASES: dict[str, Case] = {
    "await": Case(_awaiting),
    "batch": Case(_batch),
    "bury": Case(lambda options: _job(options, failing.marked(options)), buries=True),
    "bury-windows": _BURY_WINDOWS,
    "bury-windows-backlog": replace(_BURY_WINDOWS, idle=True, backlog=True),
    "count": Case(_count),
    "dedupe": Case(_dedupe, windowed=False),
    "fail": Case(lambda options: _job(options, failing.marked(options)), fails=True),
    **cases_of_flows(FOR_FLOWS),
    **cases_driven_by_data(FOR_FLOWS),
    **cases_of_joins(FOR_FLOWS),
    "guard": Case(_count, guarded=True),
    "idle": Case(_count, idle=True),
    "idle-backlog": Case(_count, idle=True, backlog=True),
    "idle-backlog-all": Case(_count_all, windowed=False, idle=True, backlog=True),
    "idle-backlog-running": Case(_running, idle=True, backlog=True),
    "idle-running": Case(_running, idle=True),
    **cases_by_key(_job),
    "late": Case(_count, late_by=1),
    "late-running": Case(_running, late_by=2),
    "manual": Case(_manual, manual=True),
    "max-ties": Case(_max_ties),
    "own-windows": Case(_own_windows),
    "query1": Case(_query1),
    "read-back": Case(_read_back),
    "routed": Case(_routed),
    "running": Case(_running),
    "stateless": Case(_stateless, windowed=False),
    "two-stages": Case(_two_stages, further_windows=(3,)),
}
