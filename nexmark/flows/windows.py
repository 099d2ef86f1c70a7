"""q5, q7, q7max, q8, q11 and q12: windows of seconds, and sessions."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.dataflow import Group, Session, Sliding, Tumbling
from nexmark.flows.events import Events
from wcrdt import Bag, BoolOr, GSet, OfLargest

TEN_SECONDS = Tumbling("10s")
SESSIONS = Session("10s", "10s")
NEXT_TOO = Sliding("20s", "10s")
"""A window of ten seconds and the one behind it."""
_MS = 10_000


class Auction(msgspec.Struct, frozen=True):
    """The auction that a bid is on."""

    auction: int


class Hot(msgspec.Struct, frozen=True):
    """An auction with its bids in a window."""

    auction: int
    num: int
    window_end: int


class TimedBid(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a bid that q7 gives, with its time as a number."""

    auction: int
    bidder: int
    price: int
    date_time: str
    extra: str
    time_ms: int


class Candidate(msgspec.Struct, frozen=True):
    """Equal bids that may be the highest of a window: its own, or such at its end; ``bid`` has their other fields."""

    window_end: int
    price: int
    num: int
    bid: tuple[int, int, str, str]
    is_own: bool


class Highest(msgspec.Struct, frozen=True, rename="camel"):
    """A bid at the highest price of a window."""

    auction: int
    bidder: int
    price: int
    date_time: str
    extra: str
    window_end: int = msgspec.field(name="window_end")


class Maximum(msgspec.Struct, frozen=True):
    """Highest price and number of bids of a window."""

    window_end: int
    max_price: int
    bids: int


class JustPrice(msgspec.Struct, frozen=True):
    """The price of a bid."""

    price: int


class Person(msgspec.Struct, frozen=True):
    """Somebody who came."""

    id: int
    name: str


class Seller(msgspec.Struct, frozen=True):
    """Somebody who sells."""

    seller: int


class Seen(msgspec.Struct, frozen=True):
    """Somebody who came (with a name) or sells (``sells`` 1, without)."""

    id: int
    name: str
    sells: int


class NewSeller(msgspec.Struct, frozen=True):
    """Somebody who sells in the window in which they came."""

    id: int
    name: str
    starttime: int


class Bidder(msgspec.Struct, frozen=True):
    """The one who bids."""

    bidder: int


class BidderCount(msgspec.Struct, frozen=True):
    """The bids of a bidder in a session or window."""

    bidder: int
    bid_count: int
    starttime: int
    endtime: int


def q5(events: Events) -> None:
    """The auctions with the most bids, per sliding window; ties all come out."""
    (
        events.bids(Auction)
        .key_by(lambda b: b.auction)
        .window(Sliding("10s", "2s"))
        .agg(lambda g: Hot(g.key, g.count(), g.window.end_ms))
        .top(1, by=lambda h: h.num, ties="all")
        .sink("q5")
    )


def q7max(events: Events) -> None:
    """Highest price and number of bids of each window."""
    (
        events.bids(JustPrice)
        .window(TEN_SECONDS)
        .agg(lambda g: Maximum(g.window.end_ms, g.max(lambda b: b.price), g.count()))
        .sink("q7max")
    )


def q8(events: Events) -> None:
    """The persons who sell in the window in which they came."""
    persons, auctions = events.persons_and_auctions(Person, Seller)
    (
        persons.map(lambda p: Seen(p.id, p.name, 0))
        .union(auctions.map(lambda a: Seen(a.seller, "", 1)))
        .key_by(lambda s: s.id)
        .window(TEN_SECONDS)
        .agg(lambda g: (g.key, g.fold(GSet(), lambda s: (s.sells, s.name)), g.window.start_ms))
        .filter(lambda found: (1, "") in found[1])
        .flat_map(lambda found: [NewSeller(found[0], name, found[2]) for sells, name in sorted(found[1]) if not sells])
        .sink("q8")
    )


def q11(events: Events) -> None:
    """The bids of each bidder's sessions."""
    (
        events.bids(Bidder)
        .key_by(lambda b: b.bidder)
        .window(SESSIONS)
        .agg(lambda g: BidderCount(g.key, g.count(), g.window.start_ms, g.window.end_ms))
        .sink("q11")
    )


def q12(events: Events) -> None:
    """The bids of each bidder, per window of event time."""
    (
        events.bids(Bidder)
        .key_by(lambda b: b.bidder)
        .window(TEN_SECONDS)
        .agg(lambda g: BidderCount(g.key, g.count(), g.window.start_ms, g.window.end_ms))
        .sink("q12")
    )


def q7(events: Events) -> None:
    """The bids at the highest price of each window, with those exactly at its end, as the official join has it."""
    bids = events.bids(TimedBid)
    own = (
        bids.window(TEN_SECONDS)
        .agg(lambda g: (g.window.end_ms, highest_bids(g)))
        .flat_map(lambda found: [Candidate(found[0], found[1][0], n, bid, True) for bid, n in found[1][1].items()])
    )
    at_border = (
        bids.filter(lambda b: b.time_ms % _MS == 0)
        .key_by(lambda b: (b.price, b.auction, b.bidder, b.date_time, b.extra))
        .window(TEN_SECONDS)
        .agg(lambda g: Candidate(g.window.start_ms, g.key[0], g.count(), g.key[1:], False))
    )
    (
        own.union(at_border)
        .key_by(lambda c: (c.window_end, c.price))
        .window(NEXT_TOO)
        .agg(lambda g: (is_of_window(g), g.key, g.fold(GSet(), lambda c: (c.bid, c.num))))
        .filter(lambda found: found[0])
        .flat_map(lambda found: [highest(bid, *found[1]) for bid, n in sorted(found[2]) for _ in range(n)])
        .sink("q7")
    )


def highest_bids(g: Group[None, TimedBid]) -> Any:
    """The highest price, and how often each bid with it was made."""
    return g.fold(OfLargest(Bag()), lambda b: (b.price, (b.auction, b.bidder, b.date_time, b.extra)))


def is_of_window(g: Group[tuple[int, int], Candidate]) -> bool:
    """Whether the price is the highest of the first of the two windows."""
    return g.fold(BoolOr(), lambda c: c.is_own) and g.key[0] == g.window.end_ms - _MS


def highest(bid: tuple[int, int, str, str], window_end: int, price: int) -> Highest:
    """A result."""
    auction, bidder, date_time, extra = bid
    return Highest(auction, bidder, price, date_time, extra, window_end)
