"""q0, q1 and q2: every bid as it is, with its price in euros, or filtered. Nothing is remembered."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from holon import Batch, Context, ProcessingFunction
from nexmark.model import BID

_FILTER = 123


class _Converted(msgspec.Struct):
    auction: int
    bidder: int
    price: str
    dateTime: str  # noqa: N815  (wire name)
    extra: str


class _Sold(msgspec.Struct):
    auction: int
    price: int


class Q0(ProcessingFunction[Any]):
    """Pass-through: the decoded fields are written again."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        encode = msgspec.json.encode
        ctx.emit_many([encode(bid) for bid in batch["subject"]])


class Q1(ProcessingFunction[Any]):
    """price * 0.908 as an exact decimal with three digits."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        encode = msgspec.json.encode
        ctx.emit_many(
            [
                encode(_Converted(bid.auction, bid.bidder, in_euros(bid.price), bid.dateTime, bid.extra))
                for bid in batch["subject"]
            ]
        )


class Q2(ProcessingFunction[Any]):
    """Auction and price of the bids on every 123rd auction (the filter is the job's ``where``)."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        encode = msgspec.json.encode
        ctx.emit_many([encode(_Sold(bid.auction, bid.price)) for bid in batch["subject"]])


def bids(columns: Any) -> Any:
    """The rows that are bids."""
    return columns["kind"] == BID


def every_123rd(columns: Any) -> Any:
    """The bids that q2 is about."""
    keep = bids(columns)
    subjects = columns["subject"]
    rows = np.flatnonzero(keep)
    keep[rows] = [subjects[row].auction % _FILTER == 0 for row in rows.tolist()]
    return keep


def in_euros(cents: int) -> str:
    """``cents * 0.908``, exactly: 908 thousandths each."""
    whole, thousandths = divmod(abs(cents) * 908, 1000)
    return f"{'-' if cents < 0 else ''}{whole}.{thousandths:03d}"
