"""q3, q4 and q4official: joins, written as groups of one key within a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holon import Assigner, GlobalWindow
from holon.dataflow import Stream
from nexmark.flows.events import Events
from nexmark.flows.rows import Sale, TimedPrice, truncated
from nexmark.flows.windows import TEN_SECONDS
from wcrdt import Bag


class Offer(msgspec.Struct, frozen=True):
    """A sale (``is_sale`` 1) or a bid of an auction; what it lacks is 0."""

    auction: int
    is_sale: int
    time_ms: int
    expires: int
    number: int
    """The category of a sale, the price of a bid."""


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
    sales, bids = events.auctions_and_bids(Sale, TimedPrice)
    return (
        sales.map(lambda s: Offer(s.id, 1, s.time_ms, s.expires, s.category))
        .union(bids.map(lambda b: Offer(b.auction, 0, b.time_ms, 0, b.price)))
        .key_by(lambda o: o.auction)
        .window(windows)
        .agg(lambda g: g.fold(Bag(), lambda o: (o.is_sale, o.time_ms, o.expires, o.number)))
        .flat_map(best_bids)
    )


def best_bids(offers: Iterable[tuple[int, int, int, int]]) -> Iterator[Final]:
    """The best valid bid of an auction in each of its categories."""
    sales = [offer for offer in offers if offer[0]]
    bids = [offer for offer in offers if not offer[0]]
    for category in sorted({sale[3] for sale in sales}):
        spans = [(opens, expires) for _, opens, expires, of in sales if of == category]
        valid = [price for _, at, _, price in bids if any(opens <= at <= expires for opens, expires in spans)]
        if valid:
            yield Final(category, max(valid))
