"""q3, q4 and q4official: joins within a window."""

from __future__ import annotations

import msgspec

from holon import Assigner, GlobalWindow
from holon.dataflow import Stream
from nexmark.flows.events import Events
from nexmark.flows.rows import Sale, TimedPrice, truncated
from nexmark.flows.windows import TEN_SECONDS


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
    residents = persons.filter(lambda p: p.state in ("OR", "ID", "CA"))
    (
        auctions.filter(lambda a: a.category == 10)
        .key_by(lambda a: a.seller)
        .window(GlobalWindow())
        .join(residents.key_by(lambda p: p.id))
        .map(lambda both: LocalItem(both.right.name, both.right.city, both.right.state, both.left.id))
        .sink("q3")
    )


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
