"""q3, q4 and q4official: joins within a window."""

from __future__ import annotations

import msgspec

from holon import Assigner, GlobalWindow
from holon.dataflow import Stream
from nexmark.flows.events import Events
from nexmark.flows.rows import Sale, TimedPrice, truncated
from nexmark.flows.windows import TEN_SECONDS
from wcrdt import Bag


class Final(msgspec.Struct, frozen=True):
    """The best bid of an auction in a category."""

    category: int
    price: int


class Average(msgspec.Struct, frozen=True):
    """The average of the best bids of a category, in a window."""

    window_end: int
    category: int
    avg: int


class WholeAverage(msgspec.Struct, frozen=True):
    """The average of the best bids of a category."""

    category: int
    avg: int


class Party(msgspec.Struct, frozen=True):
    """A person or an auction of q3 (``is_auction`` 1); what it lacks is empty or 0."""

    person: int
    auction: int
    name: str
    city: str
    state: str
    is_auction: int


class SellerOf(msgspec.Struct, frozen=True):
    """The seller and the category of an auction."""

    id: int
    seller: int
    category: int


class Resident(msgspec.Struct, frozen=True):
    """A person, and where they live."""

    id: int
    name: str
    city: str
    state: str


class LocalItem(msgspec.Struct, frozen=True):
    """An auction of somebody who lives in one of three states."""

    name: str
    city: str
    state: str
    id: int


def q3(events: Events) -> None:
    """Auctions in category 10 of persons in three states, over the whole input."""
    persons, auctions = events.persons_and_auctions(Resident, SellerOf)
    (
        persons.filter(lambda p: p.state in ("OR", "ID", "CA"))
        .map(lambda p: Party(p.id, 0, p.name, p.city, p.state, 0))
        .union(
            auctions.filter(lambda a: a.category == 10).map(lambda a: Party(a.seller, a.id, "", "", "", 1))
        )
        .key_by(lambda p: p.person)
        .window(GlobalWindow())
        .agg(lambda g: g.fold(Bag(), lambda p: (p.is_auction, p.auction, p.name, p.city, p.state)))
        .flat_map(
            lambda parties: [
                LocalItem(*person[2:], auction[1])
                for auction, auctions in parties.items() if auction[0]
                for person, persons in parties.items() if not person[0]
                for _ in range(auctions * persons)
            ]
        )
        .sink("q3")
    )  # fmt: skip


def q4(events: Events) -> None:
    """The average best bid by category, per window."""
    (
        _finals(events, TEN_SECONDS)
        .key_by(lambda f: f.category)
        .window(TEN_SECONDS)
        .agg(lambda g: Average(g.window.end_ms, g.key, truncated(g.sum(lambda f: f.price), g.count())))
        .sink("q4")
    )


def q4official(events: Events) -> None:
    """The average best bid by category, over the whole input."""
    (
        _finals(events, GlobalWindow())
        .key_by(lambda f: f.category)
        .window(GlobalWindow())
        .agg(lambda g: WholeAverage(g.key, truncated(g.sum(lambda f: f.price), g.count())))
        .sink("q4official")
    )


def _finals(events: Events, windows: Assigner) -> Stream[Final]:
    """The best valid bid of each auction."""
    sales, bids = events.auctions_and_bids(Sale, TimedPrice)
    return (
        bids.key_by(lambda b: b.auction)
        .window(windows)
        .join(sales.key_by(lambda s: s.id))
        .filter(lambda both: both.right.time_ms <= both.left.time_ms <= both.right.expires)
        .key_by(lambda both: (both.right.id, both.right.category))
        .window(windows)
        .agg(lambda g: Final(g.key[1], g.max(lambda both: both.left.price)))
    )
