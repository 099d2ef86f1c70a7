"""A job with sharded state over the events of ``jobs_mixed``, and its results a second time, in plain Python."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event, time_of
from wcrdt import ColumnsOf, GCounter

KEYS = 997


class Sharded(ProcessingFunction[Event]):
    """The amounts of each key in windows of 5 s."""

    amounts = WCRDT(ColumnsOf(GCounter()), Tumbling(5000), sharded=True)

    def process(self, event: Event, ctx: Context) -> None:
        self.amounts.insert((event.id % KEYS, event.amount), event.ts)

    @on_window(amounts)
    async def report(self, window: Window, ctx: Context) -> None:
        for key, amount in (await self.amounts.window_value(window)).items():
            ctx.emit({"end": window.end_ms, "key": key, "amount": amount})


def job() -> Job[Event]:
    return Job("sharded", Source(INPUT, Json(Event), timestamp=time_of), Sharded, output=OUTPUT)


class ManyKeys(ProcessingFunction[Event]):
    """The amount of each event by its id, in one window of all."""

    amounts = WCRDT(ColumnsOf(GCounter()), Tumbling("1d"), sharded=True)

    def process(self, event: Event, ctx: Context) -> None:
        if event.poison == "end the process":
            os._exit(0)
        self.amounts.insert((event.id, event.amount), event.ts)

    @on_window(amounts)
    async def report(self, window: Window, ctx: Context) -> None:
        for key, amount in (await self.amounts.window_value(window)).items():
            ctx.emit({"key": key, "amount": amount})


def many_keys() -> Job[Event]:
    return Job("many-keys", Source(INPUT, Json(Event), timestamp=time_of), ManyKeys, output=OUTPUT)


def expected_of_keys(events: Mapping[int, Sequence[Event]]) -> Counter[str]:
    """The lines of the output of ``many_keys``; an amount of zero leaves no key behind."""
    rows = ({"key": one.id, "amount": one.amount} for some in events.values() for one in some)
    return Counter(json.dumps(row, separators=(",", ":")) for row in rows)


def expected(events: Mapping[int, Sequence[Event]]) -> Counter[str]:
    """The lines of the output."""
    totals: Counter[tuple[int, int]] = Counter()
    for event in (one for some in events.values() for one in some):
        totals[event.ts // 5000 * 5000 + 5000, event.id % KEYS] += event.amount
    rows = ({"end": end, "key": key, "amount": amount} for (end, key), amount in totals.items())
    return Counter(json.dumps(row, separators=(",", ":")) for row in rows)
