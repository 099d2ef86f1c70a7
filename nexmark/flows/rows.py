"""Rows that several flows read."""

from __future__ import annotations

import msgspec


class FullBid(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a bid that q0, q1 and q7 give."""

    auction: int
    bidder: int
    price: int
    date_time: str
    extra: str


class Price(msgspec.Struct, frozen=True):
    """A bid's price and auction."""

    auction: int
    price: int


class TimedPrice(msgspec.Struct, frozen=True):
    """A bid's price and auction, and when it was made."""

    auction: int
    price: int
    time_ms: int


class Sale(msgspec.Struct, frozen=True):
    """An auction: while it is open, both times included, bids on it are valid."""

    id: int
    category: int
    time_ms: int
    expires: int


def truncated(total: int, count: int) -> int:
    """The mean as the benchmark has it: an integer, cut towards zero."""
    return total // count if total >= 0 else -(-total // count)
