"""The job that fleets run in tests: every track, every kind of state, results both per record and per window.

Its expected results are computed a second time, without Holon, in ``expected``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from holon import WCRDT, Context, Decoded, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.columnar.payloads import BinaryColumn
from wcrdt.lattices.exact_sums.sums import Sum

INPUT = "in"
OUTPUT = "t"
"""The name that the lock holders of ``log_child`` use."""
WINDOW_MS = 1000
STEP_MS = 10


class Event(msgspec.Struct):
    """Event n of the stream; ``poison`` says what the job's function does with it."""

    ts: int
    id: int
    amount: int
    poison: str = ""


def time_of(event: Event) -> int:
    return event.ts


class Mixed(ProcessingFunction[Event]):
    """Every fifth record with its number in the partition, and the sum of each window, once for each partition."""

    amounts = WCRDT(Sum(), Tumbling(WINDOW_MS))
    seen = Local(0)
    windows = Local(0, track="window")

    def process(self, event: Event, ctx: Context) -> None:
        self.seen.value += 1
        self.amounts.insert(event.amount, event.ts)
        if event.id % 5 == 0:
            ctx.emit({"id": event.id, "seen": self.seen.value})

    @on_window(amounts)
    async def report(self, window: Window, ctx: Context) -> None:
        self.windows.value += 1
        total = await self.amounts.window_value(window)
        ctx.emit({"end": window.end_ms, "partition": ctx.partition, "nth": self.windows.value, "total": total})


def job() -> Job[Event]:
    """As ``tests.integration.jobs_mixed:job``."""
    return Job("mixed", Source(INPUT, Json(Event), timestamp=time_of), Mixed, output=OUTPUT)


class ByColumns(Json[Event]):
    """Makes nodes read the log by the compiled loops, and insists that they do."""

    compiled = True

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Event]:
        assert isinstance(payloads, BinaryColumn), "the plain reader has read this"
        return super().decode(payloads)


def by_columns() -> Job[Event]:
    """The same job where the log gives columns."""
    return replace(job(), source=Source(INPUT, ByColumns(Event), timestamp=time_of))


def event(number: int) -> Event:
    return Event(ts=number * STEP_MS, id=number, amount=number * 7 % 11)


def place(number: int, partitions: int) -> int:
    """Not in turn, and every partition has some of every window."""
    return (number * 5 + number // partitions) % partitions


def payloads(first: int, last: int, partitions: int) -> dict[int, list[bytes]]:
    """Events ``first`` to ``last`` (exclusive) by partition."""
    rows: dict[int, list[bytes]] = defaultdict(list)
    for number in range(first, last):
        rows[place(number, partitions)].append(msgspec.json.encode(event(number)))
    return rows


def expected(events: Mapping[int, Sequence[Event]]) -> Counter[str]:
    """The results of the events by partition (in order), as a multiset of JSON texts."""
    found: Counter[str] = Counter()
    totals: dict[int, int] = defaultdict(int)
    for partition in events:
        for nth, event in enumerate(events[partition], start=1):
            totals[event.ts // WINDOW_MS * WINDOW_MS + WINDOW_MS] += event.amount
            if event.id % 5 == 0:
                found[text({"id": event.id, "seen": nth})] += 1
    for partition in events:
        for nth, end in enumerate(sorted(totals), start=1):
            found[text({"end": end, "partition": partition, "nth": nth, "total": totals[end]})] += 1
    return found


def text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
