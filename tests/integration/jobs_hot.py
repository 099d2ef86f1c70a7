"""A job on skewed keys: one window that holds everything, and results of the hot key all through it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, on_window
from tests.integration.jobs_mixed import INPUT, OUTPUT
from wcrdt.lattices.counters import GCounter
from wcrdt.lattices.maps import MapOf

KEYS = 500
GIANT_MS = 10**9


class Click(msgspec.Struct):
    ts: int
    key: str


def time_of(click: Click) -> int:
    return click.ts


class Hot(ProcessingFunction[Click]):
    counts = WCRDT(MapOf(GCounter()), Tumbling(GIANT_MS))
    seen = Local(0)

    def process(self, click: Click, ctx: Context) -> None:
        self.seen.value += 1
        self.counts.insert((click.key, 1), click.ts)
        if self.seen.value % 100 == 0:
            ctx.emit({"key": click.key, "seen": self.seen.value}, key=click.key.encode())

    @on_window(counts, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        totals = await self.counts.window_value(window)
        ctx.emit({"end": window.end_ms, "totals": dict(sorted(totals.items()))})


def job() -> Job[Click]:
    """As ``tests.integration.jobs_hot:job``."""
    return Job("hot", Source(INPUT, Json(Click), timestamp=time_of), Hot, output=OUTPUT)


def clicks(first: int, count: int) -> Iterator[Click]:
    """Keys by Zipf's law with exponent 1.5, without chance: key k gets its share of every stretch of the input.

    Fractions of multiples of the golden ratio spread evenly; the inverse of the law's distribution maps them to keys.
    """
    for n in range(first, first + count):
        fraction = n * 0.6180339887498949 % 1.0
        rank = min(KEYS, int((1.0 - fraction * (1.0 - KEYS**-0.5)) ** -2.0))
        yield Click(n, f"key{rank}")
