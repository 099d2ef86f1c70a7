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


def date_of(time_ms: int) -> str:
    """The date (UTC), by arithmetic alone, so that it is followed.

    Years begin in March, since that puts the leap day last (Hinnant, "chrono-compatible low-level date algorithms").
    """
    era, day = divmod(time_ms // 86_400_000 + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return f"{400 * era + year + month // 10:04d}-{(month + 2) % 12 + 1:02d}-{day + 1:02d}"


def minute_of(time_ms: int) -> str:
    """The time of day in minutes (UTC)."""
    return f"{time_ms // 3_600_000 % 24:02d}:{time_ms // 60_000 % 60:02d}"
