"""The Nexmark event model: what is on the wire, as types for user code, and the constants of the benchmark.

Field names on the wire are those of the reference's tables (`dateTime`, `emailAddress`, ...), so that other engines
read the very same records. Times are text on the wire (UTC); `nexmark.times` converts whole columns.
"""

from __future__ import annotations

import msgspec

from nexmark.times import (
    INVALID_TIME,
    format_time_ms,
    format_times_ms,
    parse_time_ms,
    parse_times_ms,
)

__all__ = [
    "AUCTION",
    "BASE_TIME_MS",
    "BID",
    "EVENTS_PER_S",
    "INVALID_TIME",
    "PERSON",
    "WINDOW_MS",
    "Auction",
    "Bid",
    "Event",
    "Person",
    "format_time_ms",
    "format_times_ms",
    "parse_time_ms",
    "parse_times_ms",
]

PERSON, AUCTION, BID = 0, 1, 2
"""Values of `event_type`."""

BASE_TIME_MS = 1_735_689_600_000
"""Event time of event 0: 2025-01-01 00:00:00 UTC."""

EVENTS_PER_S = 10_000
"""Events a second of event time."""

WINDOW_MS = 10_000
"""The benchmark's tumbling windows, aligned to the epoch."""


class Person(msgspec.Struct, frozen=True, rename="camel"):
    """Somebody who sells or bids."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: str
    extra: str


class Auction(msgspec.Struct, frozen=True, rename="camel"):
    """An item on sale until `expires`. Prices are cents."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: str
    expires: str
    seller: int
    category: int
    extra: str


class Bid(msgspec.Struct, frozen=True, rename="camel"):
    """An offer of `price` cents for the item of an auction."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: str
    extra: str


class Event(msgspec.Struct, frozen=True):
    """One record: `event_type` names which of the three is there; the other two are null."""

    event_type: int
    person: Person | None = None
    auction: Auction | None = None
    bid: Bid | None = None

    @property
    def time_ms(self) -> int:
        """Event time in epoch milliseconds; `INVALID_TIME` if the record has none."""
        subject = (self.person, self.auction, self.bid)[self.event_type] if 0 <= self.event_type <= BID else None
        return INVALID_TIME if subject is None else parse_time_ms(subject.date_time)
