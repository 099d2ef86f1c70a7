"""q4: the average, by category, of the best bids of auctions.

The join needs no shuffle of bids: auctions are few and shared with all partitions, bids stay where they are. When a
window is complete, each partition joins its own bids with all auctions and shares its best ones (stage 1); when all
have, one partition averages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import WCRDT, Assigner, Batch, Context, Global, ProcessingFunction, Window, WLocal, on_window
from nexmark.model import AUCTION, BID, PERSON, WINDOW_MS
from nexmark.queries.bag import Bag
from nexmark.times import parse_times_ms
from wcrdt import GSet, MapOf, Max, Tumbling

FAR_FUTURE_MS = 2**52
"""Event times are below; the end of the global window is not."""


class Averages(ProcessingFunction[Any]):
    """The windowed form, as Holon evaluates it: auctions and bids of the same window meet."""

    windows: Assigner = Tumbling(WINDOW_MS)
    sales = WCRDT(GSet(), windows)
    bids = WLocal(Bag(3), windows)
    best: WCRDT[Any, Any] = WCRDT(MapOf(Max()), windows, stage=1)

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        subjects, kinds = batch["subject"], batch["kind"]
        rows = np.flatnonzero(kinds == AUCTION)
        if len(rows):
            sold = [subjects[row] for row in rows.tolist()]
            expires = parse_times_ms([auction.expires for auction in sold]).tolist()
            opens = batch.ts_ms[rows].tolist()
            offers = [(a.id, a.category, start, end) for a, start, end in zip(sold, opens, expires, strict=True)]
            self.sales.insert_many(offers, batch.ts_ms[rows], rows=rows)
        rows = np.flatnonzero(kinds == BID)
        if len(rows):
            found = [subjects[row] for row in rows.tolist()]
            auctions = np.array([bid.auction for bid in found], dtype=np.int64)
            prices = np.array([bid.price for bid in found], dtype=np.int64)
            times = batch.ts_ms[rows]
            self.bids.insert_many((auctions, times, prices), times, rows=rows)

    @on_window(sales)
    async def join(self, window: Window, ctx: Context) -> None:
        auctions, times, prices = await self.bids.window_value(window)
        if len(auctions) == 0:
            return
        order = np.argsort(auctions, kind="stable")
        auctions, times, prices = auctions[order], times[order], prices[order]
        for sale, category, opens, expires in sorted(await self.sales.window_value(window)):
            first, last = np.searchsorted(auctions, (sale, sale + 1))
            if first < last:
                valid = (times[first:last] >= opens) & (times[first:last] <= expires)
                if valid.any():
                    highest = int(prices[first:last][valid].max())
                    self.best.insert(((sale, category), highest), min(window.end_ms, FAR_FUTURE_MS) - 1)

    @on_window(best, once=True)
    async def answer(self, window: Window, ctx: Context) -> None:
        finals: dict[int, list[int]] = {}
        best: dict[tuple[int, int], int] = await self.best.window_value(window)
        for (_, category), price in best.items():
            finals.setdefault(category, []).append(price)
        for category in sorted(finals):
            total, count = sum(finals[category]), len(finals[category])
            average = total // count if total >= 0 else -(-total // count)  # SQL truncates towards zero
            ctx.emit(self.row(window, category, average))

    def row(self, window: Window, category: int, average: int) -> dict[str, int]:
        """A result."""
        return {"window_end": window.end_ms, "category": category, "avg": average}


class OfficialAverages(Averages):
    """The official form, not windowed: the final state of a bounded input."""

    sales = WCRDT(GSet(), Global())
    bids = WLocal(Bag(3), Global())
    best: WCRDT[Any, Any] = WCRDT(MapOf(Max()), Global(), stage=1)

    @on_window(sales)
    async def join(self, window: Window, ctx: Context) -> None:
        await super().join(window, ctx)

    @on_window(best, once=True)
    async def answer(self, window: Window, ctx: Context) -> None:
        await super().answer(window, ctx)

    def row(self, window: Window, category: int, average: int) -> dict[str, int]:
        return {"category": category, "avg": average}


def sales_and_bids(columns: Any) -> Any:
    """Everything but persons."""
    return columns["kind"] != PERSON
