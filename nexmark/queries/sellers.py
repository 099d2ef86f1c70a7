"""q8: the persons who put something up for auction in the window in which they came."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import WCRDT, Assigner, Batch, Context, ProcessingFunction, Window, on_window
from nexmark.model import AUCTION, BID, PERSON, WINDOW_MS
from wcrdt import GSet, Tumbling


class NewSellers(ProcessingFunction[Any]):
    """Two sets a window, shared by all partitions: who came, and who sells. Their intersection is the result."""

    windows: Assigner = Tumbling(WINDOW_MS)
    persons = WCRDT(GSet(), windows)
    sellers = WCRDT(GSet(), windows)

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        subjects, kinds = batch["subject"], batch["kind"]
        rows = np.flatnonzero(kinds == PERSON)
        if len(rows):
            came = [(subjects[row].id, subjects[row].name) for row in rows.tolist()]
            self.persons.insert_many(came, batch.ts_ms[rows], rows=rows)
        rows = np.flatnonzero(kinds == AUCTION)
        if len(rows):
            sellers = np.array([subjects[row].seller for row in rows.tolist()], dtype=np.int64)
            self.sellers.insert_many(sellers, batch.ts_ms[rows], rows=rows)

    @on_window(persons, once=True)
    async def answer(self, window: Window, ctx: Context) -> None:
        sellers = frozenset(await self.sellers.window_value(window))
        for number, name in await self.persons.window_value(window):
            if number in sellers:
                ctx.emit({"id": number, "name": name, "starttime": window.start_ms})


def persons_and_auctions(columns: Any) -> Any:
    """Everything but bids."""
    return columns["kind"] != BID
