"""Jobs whose functions fail: at marked records, and at windows. Each fails behind all that it may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holon import WCRDT, Context, Local, ProcessingFunction, Tumbling, Window, on_window
from wcrdt.lattices.counters import GCounter
from wcrdt.lattices.maps import MapOf

if TYPE_CHECKING:
    from nodes.sim.options import Options


def marked(options: Options) -> type[ProcessingFunction[Any]]:
    """Counts, but raises at a marked record, after it has inserted; of odd ones after it has changed a Local too."""

    class Marked(ProcessingFunction[Any]):
        count, seen = WCRDT(GCounter(), Tumbling(options.window_ms)), Local(0)

        def process(self, event: Any, ctx: Context) -> None:
            self.count.insert(1, event.ts)
            if event.id % 2:
                self.seen.value += 1
            ctx.emit({"id": event.id, "seen": self.seen.value if event.id % 2 else 0})
            if event.mark:
                raise ValueError(f"record {event.id} is marked")

        @on_window(count, scope="global")
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})

    return Marked


def windows(options: Options) -> type[ProcessingFunction[Any]]:
    """Windows fail by their counts, and on some partitions alone; longer windows sum what the others have left."""

    class FailingWindows(ProcessingFunction[Any]):
        count = WCRDT(GCounter(), Tumbling(options.window_ms))
        sums = WCRDT(MapOf(GCounter()), Tumbling(3 * options.window_ms), stage=1)
        total = Local(0, track="window", stage=0)
        ends = Local[list[int]]([], track="window", stage=1)

        def process(self, event: Any, ctx: Context) -> None:
            self.count.insert(1, event.ts)
            if event.mark:
                raise ValueError(f"record {event.id} is marked")

        @on_window(count)
        async def up(self, window: Window, ctx: Context) -> None:
            count = await self.count.window_value(window)
            self.sums.insert((ctx.partition, count), window.start_ms)
            self.total.value += count
            ctx.emit({"partition": ctx.partition, "end": window.end_ms, "total": self.total.value})
            if (count + ctx.partition) % 3 == 0:
                raise ValueError(f"{count} of partition {ctx.partition}")

        @on_window(sums)
        async def report(self, window: Window, ctx: Context) -> None:
            self.ends.value.append(window.end_ms)
            counts = await self.sums.window_value(window)
            last = self.ends.value[-2:]
            ctx.emit({"partition": ctx.partition, "counts": [counts[key] for key in sorted(counts)], "ends": last})
            if sum(counts.values()) % 2 == ctx.partition % 2:
                raise ValueError(f"{counts} of partition {ctx.partition}")

    return FailingWindows
