"""q0, q1 and q2: every bid as it is, with its price in euros, or filtered. Nothing is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon import Batch, Context, ProcessingFunction
from holon.columnar.encoding import Field, Thousandths, encode_rows
from nexmark.model import BID

_FILTER = 123
_CONVERTED = 908
"""Euros for 1000 dollars."""
_EXACT = (2**63 - 1) // _CONVERTED
_WRITTEN = ("auction", "bidder", "price", "dateTime", "extra")


class Q0(ProcessingFunction[Any]):
    """Pass-through: the decoded fields are written again."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        ctx.emit_many(encode_rows(_fields(batch, *_WRITTEN), len(batch)))


class Q1(ProcessingFunction[Any]):
    """price * 0.908 as an exact decimal with three digits."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        fields = _fields(batch, *_WRITTEN)
        ctx.emit_many(encode_rows({**fields, "price": in_euros(batch["bid.price"])}, len(batch)))


class Q2(ProcessingFunction[Any]):
    """Auction and price of the bids on every 123rd auction (the filter is the source's ``filter``)."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        ctx.emit_many(encode_rows(_fields(batch, "auction", "price"), len(batch)))


def _fields(batch: Batch[Any], *names: str) -> dict[str, Field]:
    return {name: batch[f"bid.{name}"] for name in names}


def bids(columns: Any) -> Any:
    """The rows that are bids."""
    return columns["kind"] == BID


def every_123rd(columns: Any) -> Any:
    """The bids that q2 is about."""
    return bids(columns) & (columns["bid.auction"] % _FILTER == 0)


def in_euros(cents: NDArray[np.int64]) -> Field:
    """``cents * 0.908``, exactly: 908 thousandths each."""
    if len(cents) and (int(cents.max()) > _EXACT or int(cents.min()) < -_EXACT):  # beyond what int64 can hold
        return [_in_euros(int(price)) for price in cents]
    return Thousandths(cents * _CONVERTED)


def _in_euros(cents: int) -> str:
    whole, thousandths = divmod(abs(cents) * _CONVERTED, 1000)
    return f"{'-' if cents < 0 else ''}{whole}.{thousandths:03d}"
