"""Sliding windows that share panes: cut anew and crashed, against a fold in plain Python of the rows of each window."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon import (
    WCRDT,
    Batch,
    BoundedOutOfOrderness,
    Context,
    Job,
    Json,
    JsonColumns,
    ProcessingFunction,
    Sliding,
    Source,
    Window,
    WLocal,
    on_window,
)
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of, with_watermarks
from tests.laws.forms import in_both_forms
from tests.laws.recut_runs import Outcome, Run, record_by_record
from wcrdt import ColumnsOf, GCounter, MapOf, Max, RecordOf, Sum, canonical_bytes
from wcrdt.lattices import maps
from wcrdt.replica.pane_sums import PaneSums
from wcrdt.windows.panes import Panes

assert settings.default is not None
EXAMPLES = max(20, settings.default.max_examples // 8)  # one costs as much as several of other laws
DELAY_MS = 5
SIZES = {"all": 50, "mine": 40, "later": 80}
SLIDE_MS = 10


class Answers(ProcessingFunction[Event]):
    all = WCRDT(ColumnsOf(RecordOf(n=GCounter(), most=Max())), Sliding(SIZES["all"], SLIDE_MS))
    mine = WLocal(MapOf(Sum()), Sliding(SIZES["mine"], SLIDE_MS))
    later = WCRDT(GCounter(), Sliding(SIZES["later"], SLIDE_MS), stage=1)

    @on_window(all, scope="global")
    async def close(self, window: Window, ctx: Context) -> None:
        value = (await self.all.window_value(window)).to_dict()
        ctx.emit(["all", window.end_ms, [[key, one["n"], one["most"]] for key, one in value.items()]])
        self.later.insert(sum(one["n"] for one in value.values()), ctx.timestamp_ms)

    @on_window(mine)
    async def close_mine(self, window: Window, ctx: Context) -> None:
        value = await self.mine.window_value(window)
        ctx.emit(["mine", ctx.partition, window.end_ms, [[key, total] for key, total in value.items()]])

    @on_window(later, scope="global")
    async def close_later(self, window: Window, ctx: Context) -> None:
        ctx.emit(["later", window.end_ms, await self.later.window_value(window)])


class PerRecord(Answers):
    def process(self, event: Event, ctx: Context) -> None:
        self.all.insert((event.key, (1, event.id)), ctx.timestamp_ms)
        self.mine.insert((event.key, event.amount), ctx.timestamp_ms)


class PerBatch(Answers):
    def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
        keys, ones = batch["key"], batch.ts_ms * 0 + 1
        self.all.insert_many((keys, (ones, batch["id"])), batch.ts_ms)
        self.mine.insert_many((keys, batch["amount"]), batch.ts_ms)


form = in_both_forms((maps, "LEAST_KEYS"))
"""Panes in the form that they have, or in that of many keys."""


@pytest.mark.parametrize("function", [PerRecord, PerBatch])
@settings(max_examples=EXAMPLES)
@given(partitions=partitions_of_events(200, most=8), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 7]))
def test_a_window_is_the_rows_for_which_it_was_open(
    function: type[Answers], partitions: list[list[Event]], seed: int, lateness_ms: int
) -> None:
    reads: Any = JsonColumns(Event) if function is PerBatch else Json(Event)
    source: Source[Any] = Source(
        "events", reads, "ts" if function is PerBatch else _time_of, watermarks=BoundedOutOfOrderness(DELAY_MS)
    )
    job = Job("panes", source, function, output="out", allowed_lateness_ms=lateness_ms)
    payloads = payloads_of(partitions)
    run = Run(job, payloads, random.Random(seed))
    outcome, plain = run.run(largest=6, crash=0.1), record_by_record(job, payloads)
    assert (outcome.results, outcome.counts, outcome.windows) == (plain.results, plain.counts, plain.windows)
    for (state, window), value in outcome.windows.items():
        assert canonical_bytes(run.replica.final_value(state, window)) == value, "read in any order, and at once"
    assert sorted(_values(outcome)) == sorted(_expected(partitions, lateness_ms))


def _time_of(event: Event) -> int:
    return event.ts


def _expected(partitions: list[list[Event]], lateness_ms: int) -> list[Any]:
    found: dict[Any, dict[int, list[Any]]] = {}
    for partition, events in enumerate(partitions):
        for event, watermark in with_watermarks(events, DELAY_MS):
            for name, place in (("all", None), ("mine", partition)):
                for end in _ends(event["ts"], SIZES[name]):
                    if watermark is None or end + lateness_ms > watermark:
                        found.setdefault((name, place, end), defaultdict(list))[event["key"]].append(event)
    rows: list[Any] = []
    later: dict[int, int] = defaultdict(int)
    for (name, place, end), keys in found.items():
        if name == "all":
            rows.append(["all", end, [[k, len(keys[k]), max(e["id"] for e in keys[k])] for k in sorted(keys)]])
            for after in _ends(end - 1, SIZES["later"]):
                later[after] += sum(map(len, keys.values()))
        else:
            rows.append(["mine", place, end, [[k, sum(e["amount"] for e in keys[k])] for k in sorted(keys)]])
    return rows + [["later", end, count] for end, count in later.items()]


def _ends(ts_ms: int, size_ms: int) -> range:
    first = ts_ms // SLIDE_MS * SLIDE_MS + SLIDE_MS
    return range(first, first + size_ms, SLIDE_MS)


def _values(outcome: Outcome) -> list[Any]:
    return [json.loads(value) for key, some in outcome.results.items() if key[1] == "main" for _, value in some]


@settings(max_examples=2 * EXAMPLES)
@given(
    numbers=st.dictionaries(st.integers(-10, 700), st.integers(0, 5), max_size=40),
    size=st.sampled_from([4, 7, 60, 600]),
    order=st.randoms(use_true_random=False),
)
def test_sums_are_those_of_the_panes_in_any_order_of_windows(
    numbers: dict[int, int], size: int, order: random.Random
) -> None:
    panes = Panes(Sliding(size, 1))
    held = {panes.numbered(number): _counter(count) for number, count in numbers.items()}
    sums = PaneSums(panes, held.get)
    starts = [order.randrange(-size, 720) for _ in range(20)]
    for start in starts:
        own = _counter(start % 3) if start % 3 else None
        found = sums.value(Window(start, start + size), own)
        wanted = sum(count for number, count in numbers.items() if start <= number < start + size) + start % 3
        assert (0 if found is None else found.value) == wanted
    assert {pane: counter.value for pane, counter in held.items()} == {panes.numbered(n): c for n, c in numbers.items()}


def _counter(count: int) -> GCounter:
    made = GCounter()
    made.insert(count, actor=count)
    return made
