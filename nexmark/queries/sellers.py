"""q8: the persons who put something up for auction in the window in which they came."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import WCRDT, Assigner, Batch, Context, ProcessingFunction, Window, on_window
from nexmark.model import AUCTION, BID, PERSON, WINDOW_MS
from nexmark.queries.people import Named, Numbers
from wcrdt import Tumbling


class NewSellers(ProcessingFunction[Any]):
    """Two sets a window, shared by all partitions: who came, and who sells. Their intersection is the result."""

    windows: Assigner = Tumbling(WINDOW_MS)
    persons = WCRDT(Named(), windows)
    sellers = WCRDT(Numbers(), windows)

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        kinds = batch["kind"]
        rows = np.flatnonzero(kinds == PERSON)
        if len(rows):
            names = batch["person.name"]
            came = batch["person.id"][rows], [names[row] for row in rows.tolist()]
            self.persons.insert_many(came, batch.ts_ms[rows], rows=rows)
        rows = np.flatnonzero(kinds == AUCTION)
        if len(rows):
            self.sellers.insert_many(batch["auction.seller"][rows], batch.ts_ms[rows], rows=rows)

    @on_window(persons, scope="global")
    async def answer(self, window: Window, ctx: Context) -> None:
        sellers = await self.sellers.window_value(window)
        for number, name in await self.persons.window_value(window):
            if number in sellers:
                ctx.emit({"id": number, "name": name, "starttime": window.start_ms})


def persons_and_auctions(columns: Any) -> Any:
    """Everything but bids."""
    return columns["kind"] != BID
