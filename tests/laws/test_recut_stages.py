"""How far one stage is ahead of the next is an accident: nothing that a job with stages gives may depend on it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, WLocal, on_window
from tests.laws.recut_runs import Run, record_by_record
from wcrdt import GCounter, GSet

Event = dict[str, Any]


class Stages(ProcessingFunction[Event]):
    """Three stages; the last is written by both before it, and by windows that other partitions do not know of."""

    count = WCRDT(GCounter(), Tumbling(10))
    mine = WLocal(GCounter(), Tumbling(6))
    sums = WCRDT(GCounter(), Tumbling(4), stage=1)
    seen = WCRDT(GSet[int](), Tumbling(25), stage=1)
    total = WCRDT(GCounter(), Tumbling(15), stage=2)
    first = Local(0, track="window", stage=0)
    second = Local(0, track="window", stage=1)

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        if event["mine"]:
            self.mine.insert(1, ctx.timestamp_ms)

    @on_window(count)
    async def count_up(self, window: Window, ctx: Context) -> None:
        self.first.value += await self.count.window_value(window)
        self.seen.insert(window.end_ms, ctx.timestamp_ms)
        self.total.insert(1, ctx.timestamp_ms)
        ctx.emit(["count", window.end_ms, self.first.value])

    @on_window(mine)
    async def mine_up(self, window: Window, ctx: Context) -> None:
        self.first.value += 100
        self.sums.insert(await self.mine.window_value(window), ctx.timestamp_ms)
        ctx.emit(["mine", window.end_ms, self.first.value])

    @on_window(sums)
    @on_window(seen)
    async def further(self, window: Window, ctx: Context) -> None:
        self.second.value += 1
        ctx.emit(["second", window.end_ms, self.second.value])
        if window.end_ms - window.start_ms == 4:
            self.total.insert(10 * await self.sums.window_value(window), ctx.timestamp_ms)

    @on_window(total)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit(["total", window.end_ms, await self.total.window_value(window)])


class Ordered(Stages):
    """Handlers of two stages use one Local, so that their order counts."""

    first = Local(0, track="window")

    @on_window(Stages.sums)
    @on_window(Stages.seen)
    async def further(self, window: Window, ctx: Context) -> None:
        self.first.value *= 2
        ctx.emit(["ordered", window.end_ms, self.first.value])
        await super().further(window, ctx)


@st.composite
def inputs(draw: st.DrawFn) -> list[list[bytes]]:
    """Two partitions' records, in order, with leaps."""
    made = []
    for _ in range(2):
        steps = draw(st.lists(st.tuples(st.integers(0, 17), st.booleans()), max_size=10))
        times = [sum(step for step, _ in steps[: n + 1]) for n in range(len(steps))]
        made.append([json.dumps({"ts": ts, "mine": mine}).encode() for ts, (_, mine) in zip(times, steps, strict=True)])
    return made


@pytest.mark.long
@pytest.mark.parametrize("form", [Stages, Ordered])
@given(records=inputs(), seed=st.integers(0, 2**32), crash=st.sampled_from([0.0, 0.2]))
def test_stages_that_run_ahead_crash_and_catch_up_change_nothing(
    form: type[Stages], records: list[list[bytes]], seed: int, crash: float
) -> None:
    job = Job("stages", Source("events", Json(Event), lambda event: event["ts"]), form, output="out")
    outcome = Run(job, records, random.Random(seed)).run(largest=4, crash=crash)
    expected = record_by_record(job, records)
    assert outcome.results == expected.results
    assert outcome.snapshots == expected.snapshots
    assert outcome.windows == expected.windows
