"""q4: the average, by category, of the best bids of auctions.

The join needs no shuffle of bids: auctions are few and shared with all partitions, bids stay where they are. When a
window is complete, each partition joins its own bids with all auctions and shares its best ones (stage 1); when all
have, one partition averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon import WCRDT, Assigner, Batch, Context, GlobalWindow, ProcessingFunction, Window, WLocal, on_window
from nexmark.model import AUCTION, BID, PERSON, WINDOW_MS
from wcrdt import ColumnsOf, Max, RowColumns, RowLog, Tumbling

Ints = NDArray[np.int64]
NUMBERS = np.iinfo(np.int64)
DENSE = 1 << 24
"""Up to this spread of auctions' numbers a table of all of them beats searching among those that are there."""

FAR_FUTURE_MS = 2**52
"""Event times are below; the end of the global window is not."""


class Averages(ProcessingFunction[Any]):
    """The windowed form, as Holon evaluates it: auctions and bids of the same window meet."""

    windows: Assigner = Tumbling(WINDOW_MS)
    sales = WCRDT(RowLog(4), windows)
    bids = WLocal(RowLog(3), windows)
    best = WCRDT(ColumnsOf(Max()), windows, stage=1)

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        kinds = batch["kind"]
        rows = np.flatnonzero(kinds == AUCTION)
        if len(rows):
            columns = (batch["auction.id"], batch["auction.category"], batch.ts_ms, batch["auction.expires"])
            offers = tuple(column[rows] for column in columns)
            self.sales.insert_many(offers, batch.ts_ms[rows], rows=rows)
        rows = np.flatnonzero(kinds == BID)
        if len(rows):
            times = batch.ts_ms[rows]
            self.bids.insert_many((batch["bid.auction"][rows], times, batch["bid.price"][rows]), times, rows=rows)

    @on_window(sales)
    async def join(self, window: Window, ctx: Context) -> None:
        sales = ints(await self.sales.window_value(window))
        sold, categories, prices = best_bids(sales, ints(await self.bids.window_value(window)))
        if len(sold):
            at = np.full(len(sold), min(window.end_ms, FAR_FUTURE_MS) - 1, dtype=np.int64)
            self.best.insert_many(((sold, categories), prices), at)

    @on_window(best, scope="global")
    async def answer(self, window: Window, ctx: Context) -> None:
        (_, categories), prices = (await self.best.window_value(window)).columns()
        for category in np.unique(categories).tolist():
            finals: list[int] = prices[categories == category].tolist()
            total, count = sum(finals), len(finals)
            average = total // count if total >= 0 else -(-total // count)  # SQL truncates towards zero
            ctx.emit(self.row(window, category, average))

    def row(self, window: Window, category: int, average: int) -> dict[str, int]:
        """A result."""
        return {"window_end": window.end_ms, "category": category, "avg": average}


class OfficialAverages(Averages):
    """The official form, not windowed: the final state of a bounded input."""

    sales = WCRDT(RowLog(4), GlobalWindow())
    bids = WLocal(RowLog(3), GlobalWindow())
    best = WCRDT(ColumnsOf(Max()), GlobalWindow(), stage=1)

    @on_window(sales)
    async def join(self, window: Window, ctx: Context) -> None:
        await super().join(window, ctx)

    @on_window(best, scope="global")
    async def answer(self, window: Window, ctx: Context) -> None:
        await super().answer(window, ctx)

    def row(self, window: Window, category: int, average: int) -> dict[str, int]:
        return {"category": category, "avg": average}


def ints(columns: RowColumns) -> list[Ints]:
    """The columns of rows that are ints of 64 bits, without a copy."""
    return [np.asarray(column, np.int64) for column in columns]


def best_bids(sales: Sequence[Ints], bids: Sequence[Ints]) -> Ints:
    """Of each sale its auction, category, and the price of the best bid that came while it was open, if one did."""
    order = np.argsort(sales[0], kind="stable")
    sale, category, opens, expires = (column[order] for column in sales)
    auctions, times, prices = bids
    if not len(sale) or not len(auctions):
        return np.empty((3, 0), dtype=np.int64)
    first, matches = _found(sale, auctions)
    if (matches <= 1).all():  # no auction is there twice
        bid = np.flatnonzero(matches)
        match = first[bid]
    else:
        bid = np.repeat(np.arange(len(auctions)), matches)
        match = np.arange(len(bid)) + np.repeat(first - (np.cumsum(matches) - matches), matches)
    times, prices = times[bid], prices[bid]
    valid = (times >= opens[match]) & (times <= expires[match])
    match, prices = match[valid], prices[valid]
    sold, best = np.zeros(len(sale), dtype=np.bool_), np.full(len(sale), NUMBERS.min, dtype=np.int64)
    sold[match] = True
    np.maximum.at(best, match, prices)
    return np.vstack([sale[sold], category[sold], best[sold]])


def _found(sale: Ints, auctions: Ints) -> tuple[Ints, Ints]:
    """For each bid's auction the first of the sales of that number, which ascend, and how many there are."""
    low, spread = int(sale[0]), int(sale[-1]) - int(sale[0])
    if spread >= DENSE:
        first = np.searchsorted(sale, auctions, "left")
        return first, np.searchsorted(sale, auctions, "right") - first
    begins = np.zeros(spread + 2, dtype=np.int64)
    begins[1:] = np.cumsum(np.bincount(sale - low, minlength=spread + 1))
    inside = (auctions >= low) & (auctions <= low + spread)
    place = np.where(inside, auctions - low, 0)
    first = begins[place]
    return first, np.where(inside, begins[place + 1] - first, 0)


def sales_and_bids(columns: Any) -> Any:
    """Everything but persons."""
    return columns["kind"] != PERSON
