"""Jobs by key: one with state on all of its tracks, shared, private and in a later stage; and one with shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holon import WCRDT, Context, ProcessingFunction, Tumbling, Window, WLocal, on_window
from wcrdt.lattices.counters import GCounter
from wcrdt.lattices.maps import MapOf
from wcrdt.lattices.sets import GSet

if TYPE_CHECKING:
    from nodes.sim.options import Options

KEYS = 97
"""Of the job with shards: enough of them to be columns at times."""
LONGER = 3
"""Windows of its second stage are so many times as long."""
WINDOWS = 5
"""Windows of the second stage are so many times as long."""


def keyed(options: Options) -> type[ProcessingFunction[Any]]:
    """Counts by key, what each partition has seen of them by itself, and longer windows of both."""

    class Keyed(ProcessingFunction[Any]):
        counts = WCRDT(MapOf(GCounter()), Tumbling(options.window_ms))
        mine = WLocal(MapOf(GSet[int]()), Tumbling(options.window_ms))
        sums = WCRDT(MapOf(GCounter()), Tumbling(WINDOWS * options.window_ms), stage=1)

        def process(self, event: Any, ctx: Context) -> None:
            self.counts.insert((event.id % 17, 1), event.ts)
            self.mine.insert((event.key, event.id), event.ts)

        @on_window(counts)
        async def up(self, window: Window, ctx: Context) -> None:
            counts = await self.counts.window_value(window)
            mine = await self.mine.window_value(window)
            if ctx.is_responsible_for(window):
                for key in sorted(counts):
                    self.sums.insert((key, counts[key]), window.start_ms)
            shown = [[key, sorted(ids)] for key, ids in sorted(mine.items())]
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "mine": shown})

        @on_window(sums)
        async def report(self, window: Window, ctx: Context) -> None:
            sums = await self.sums.window_value(window)
            shown = [list(item) for item in sorted(sums.items())]
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "sums": shown})

    return Keyed


def sharded(options: Options) -> type[ProcessingFunction[Any]]:
    """Two states of which each partition answers for its keys, beside one of all, and longer windows of their rows."""

    class Sharded(ProcessingFunction[Any]):
        counts = WCRDT(MapOf(GCounter()), Tumbling(options.window_ms), sharded=True)
        seen = WCRDT(MapOf(GSet[int]()), Tumbling(options.window_ms), sharded=True)
        total = WCRDT(GCounter(), Tumbling(options.window_ms))
        sums = WCRDT(MapOf(GCounter()), Tumbling(LONGER * options.window_ms), stage=1)

        def process(self, event: Any, ctx: Context) -> None:
            self.counts.insert((event.id % KEYS, 1), event.ts)
            self.seen.insert((event.key, event.id), event.ts)
            self.total.insert(1, event.ts)

        @on_window(counts)
        async def each(self, window: Window, ctx: Context) -> None:
            total = await self.total.window_value(window)
            for key, count in (await self.counts.window_value(window)).items():
                self.sums.insert((key % 3, count), window.start_ms)
                ctx.emit({"end": window.end_ms, "key": key, "count": count, "of": total})

        @on_window(seen)
        async def members(self, window: Window, ctx: Context) -> None:
            for key, ids in (await self.seen.window_value(window)).items():
                ctx.emit({"end": window.end_ms, "key": key, "ids": sorted(ids)})

        @on_window(sums, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit(
                {"end": window.end_ms, "sums": [list(each) for each in (await self.sums.window_value(window)).items()]}
            )

    return Sharded
