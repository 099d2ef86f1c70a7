"""q0, q1, q2, q14, q21 and q22: each bid by itself."""

from __future__ import annotations

import re

import msgspec

from nexmark.flows.events import Events
from nexmark.flows.rows import FullBid, Price

HOUR_MS = 3_600_000
_CHANNEL_ID = re.compile("(?:&|^)channel_id=([^&]*)")
_CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


class EuroBid(msgspec.Struct, frozen=True, rename="camel"):
    """A bid in euros: the price is a decimal with three digits, as a text."""

    auction: int
    bidder: int
    price: str
    date_time: str
    extra: str


class ClockedBid(msgspec.Struct, frozen=True, rename="camel"):
    """A bid with its time as a number too."""

    auction: int
    bidder: int
    price: int
    date_time: str
    extra: str
    time_ms: int


class ClassifiedBid(msgspec.Struct, frozen=True, rename={"bid_time_type": "bidTimeType", "date_time": "dateTime"}):
    """A bid in euros with the time of day and the number of letters c in ``extra``."""

    auction: int
    bidder: int
    price: str
    bid_time_type: str
    date_time: str
    extra: str
    c_counts: int


class ChannelBid(msgspec.Struct, frozen=True):
    """Where a bid came from."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str


class KnownChannelBid(msgspec.Struct, frozen=True):
    """A bid with the number of its channel."""

    auction: int
    bidder: int
    price: int
    channel: str
    channel_id: str


class DirectoriesBid(msgspec.Struct, frozen=True):
    """A bid with the directories of its URL."""

    auction: int
    bidder: int
    price: int
    channel: str
    dir1: str | None
    dir2: str | None
    dir3: str | None


def q0(events: Events) -> None:
    """Every bid as it is."""
    events.bids(FullBid).sink("q0")


def q1(events: Events) -> None:
    """Every bid with its price in euros."""
    (
        events.bids(FullBid)
        .map(lambda b: EuroBid(b.auction, b.bidder, in_euros(b.price), b.date_time, b.extra))
        .sink("q1")
    )


def q2(events: Events) -> None:
    """Auction and price of the bids on every 123rd auction."""
    events.bids(Price).filter(lambda b: b.auction % 123 == 0).sink("q2")


def q14(events: Events) -> None:
    """Bids of a medium price, with the time of day and a count of letters."""
    (
        events.bids(ClockedBid)
        .filter(lambda b: 1_000_000_000 < b.price * 908 < 50_000_000_000)
        .map(
            lambda b: ClassifiedBid(
                b.auction,
                b.bidder,
                in_euros(b.price),
                time_of_day(b.time_ms // HOUR_MS % 24),
                b.date_time,
                b.extra,
                b.extra.count("c"),
            )
        )
        .sink("q14")
    )


def q21(events: Events) -> None:
    """Bids with the number of their channel; those without one are dropped."""
    (
        events.bids(ChannelBid)
        .filter_map(
            lambda b: (
                None
                if (number := channel_id(b.channel, b.url)) is None
                else KnownChannelBid(b.auction, b.bidder, b.price, b.channel, number)
            )
        )
        .sink("q21")
    )


def q22(events: Events) -> None:
    """Bids with three directories of their URL."""
    (
        events.bids(ChannelBid)
        .map(lambda b: DirectoriesBid(b.auction, b.bidder, b.price, b.channel, *directories(b.url)))
        .sink("q22")
    )


def in_euros(cents: int) -> str:
    """``cents * 0.908``, exactly."""
    whole, thousandths = divmod(abs(cents) * 908, 1000)
    return f"{'-' if cents < 0 else ''}{whole}.{thousandths:03d}"


def time_of_day(hour: int) -> str:
    """The class of an hour."""
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def channel_id(channel: str, url: str) -> str | None:
    """The number of a known channel, or the one that the URL has."""
    known = _CHANNELS.get(channel.lower())
    if known is not None:
        return known
    found = _CHANNEL_ID.search(url)
    return None if found is None else found[1]


def directories(url: str) -> list[str | None]:
    """The fourth to sixth part between slashes, None where there is none."""
    return [*url.split("/")[3:6], None, None, None][:3]
