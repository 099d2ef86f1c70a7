"""q7 and q7max: the highest bids of each tumbling window, over all partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon import WCRDT, Assigner, Batch, Context, Local, ProcessingFunction, Window, on_window
from nexmark.model import WINDOW_MS
from wcrdt import GCounter, GSet, Max, MaxBy, RecordOf, Tumbling

TEN_SECONDS: Assigner = Tumbling(WINDOW_MS)


class Q7Max(ProcessingFunction[Any]):
    """Highest price and number of bids of each window."""

    bids = WCRDT(RecordOf(count=GCounter(), highest=Max()), TEN_SECONDS)

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        prices = batch["bid.price"]
        self.bids.insert_many((np.ones(len(batch), dtype=np.int64), prices), batch.ts_ms)

    @on_window(bids, scope="global")
    async def answer(self, window: Window, ctx: Context) -> None:
        found = await self.bids.window_value(window)
        ctx.emit({"window_end": window.end_ms, "max_price": found["highest"], "bids": found["count"]})


class Q7(ProcessingFunction[Any]):
    """All bids at their window's highest price.

    The official query joins with both borders of the window included. So a bid exactly at a window's end is also one of
    that window, if it has the highest price of the window's own bids. Such a bid is kept with the window that it starts
    (``border``), and compared when that one is complete; ``before`` remembers what it is compared with. Partition,
    offset and place make equal bids distinct, as rows are.
    """

    highest = WCRDT(MaxBy(), TEN_SECONDS)
    border = WCRDT(GSet(), TEN_SECONDS)
    before: Local[tuple[int, int]] = Local((0, 0), type=tuple[int, int], track="window")

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        prices = batch["bid.price"]
        for state, rows in ((self.highest, _leading(prices, batch.ts_ms)), (self.border, _at_border(batch.ts_ms))):
            if len(rows) == 0:
                continue
            payloads = [_payload(batch, row, ctx.partition) for row in rows.tolist()]
            if state is self.highest:
                state.insert_many((prices[rows], payloads), batch.ts_ms[rows], rows=rows)
            else:
                priced = [(int(prices[row]), *payload) for row, payload in zip(rows, payloads, strict=True)]
                state.insert_many(priced, batch.ts_ms[rows], rows=rows)

    @on_window(highest)
    async def answer(self, window: Window, ctx: Context) -> None:
        found = await self.highest.window_value(window)
        assert found is not None, f"window {window} is complete and empty"
        price, payloads = found
        if ctx.is_responsible_for(window):
            for payload in payloads:
                ctx.emit(_row(price, payload, window.end_ms))
            end_ms, highest = self.before.value
            if end_ms == window.start_ms:
                for at_border, *payload in sorted(await self.border.window_value(window)):
                    if at_border == highest:
                        ctx.emit(_row(at_border, payload, end_ms))
        self.before.value = (window.end_ms, price)


def _payload(batch: Batch[Any], row: int, partition: int) -> tuple[int | str, ...]:
    """The kept fields of a bid; partition, offset and place make equal ones distinct."""
    auction, bidder = int(batch["bid.auction"][row]), int(batch["bid.bidder"][row])
    texts = batch["bid.dateTime"][row], batch["bid.extra"][row]
    return auction, bidder, *texts, partition, int(batch.offsets[row]), batch.place(row)


def _row(price: int, payload: Any, window_end: int) -> dict[str, Any]:
    auction, bidder, date_time, extra, *_ = payload
    return {
        "auction": auction, "price": price, "bidder": bidder, "dateTime": date_time, "extra": extra,
        "window_end": window_end,
    }  # fmt: skip


def _leading(prices: Any, ts_ms: Any) -> Any:
    """Rows at their window's highest price within this batch: only they can be among the window's highest."""
    leading = [rows for _, rows in _by_window(ts_ms)]
    return np.sort(np.concatenate([rows[prices[rows] == prices[rows].max()] for rows in leading]))


def _by_window(ts_ms: Any) -> Any:
    for window, rows in TEN_SECONDS.split(ts_ms):
        yield window, np.arange(len(ts_ms))[rows]


def _at_border(ts_ms: Any) -> Any:
    return np.flatnonzero(ts_ms % WINDOW_MS == 0)
