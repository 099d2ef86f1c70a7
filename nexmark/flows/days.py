"""q15, q16 and q17: statistics of days."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.dataflow import Group, Tumbling
from nexmark.flows.events import Events
from nexmark.flows.rows import Price, date_of, minute_of, truncated

DAY = Tumbling("1d")
ALL, LOW, MIDDLE, HIGH = range(4)
"""Ranks of bids by their price: all, below 10,000, below 1,000,000, and the others."""


class DayBid(msgspec.Struct, frozen=True):
    """The fields of a bid that q15 counts."""

    auction: int
    bidder: int
    price: int


class ChannelDayBid(msgspec.Struct, frozen=True):
    """The fields of a bid that q16 counts."""

    auction: int
    bidder: int
    price: int
    channel: str
    time_ms: int


class Ranked(msgspec.Struct, frozen=True):
    """A bid under one of its ranks."""

    rank: int
    channel: str
    auction: int
    bidder: int
    time_ms: int


class RankCounts(msgspec.Struct, frozen=True):
    """The counts of one rank of a day."""

    rank: int
    channel: str
    bids: int
    bidders: int
    auctions: int
    latest_ms: int


class DayCounts(msgspec.Struct, frozen=True):
    """The counts of a day."""

    day: str
    total_bids: int
    rank1_bids: int
    rank2_bids: int
    rank3_bids: int
    total_bidders: int
    rank1_bidders: int
    rank2_bidders: int
    rank3_bidders: int
    total_auctions: int
    rank1_auctions: int
    rank2_auctions: int
    rank3_auctions: int


class ChannelDayCounts(msgspec.Struct, frozen=True):
    """The counts of a channel and day; ``minute`` is that of the last bid."""

    channel: str
    day: str
    minute: str
    total_bids: int
    rank1_bids: int
    rank2_bids: int
    rank3_bids: int
    total_bidders: int
    rank1_bidders: int
    rank2_bidders: int
    rank3_bidders: int
    total_auctions: int
    rank1_auctions: int
    rank2_auctions: int
    rank3_auctions: int


class AuctionDay(msgspec.Struct, frozen=True):
    """The bids on an auction on a day."""

    auction: int
    day: str
    total_bids: int
    rank1_bids: int
    rank2_bids: int
    rank3_bids: int
    min_price: int
    max_price: int
    avg_price: int
    sum_price: int


def q15(events: Events) -> None:
    """Bids, bidders and auctions of each day, by rank."""
    bids = events.bids(DayBid)
    (
        bids.map(lambda b: Ranked(rank(b.price), "", b.auction, b.bidder, 0))
        .union(bids.map(lambda b: Ranked(ALL, "", b.auction, b.bidder, 0)))
        .key_by(lambda r: r.rank)
        .window(DAY)
        .agg(
            lambda g: RankCounts(
                g.key, "", g.count(), g.distinct(lambda r: r.bidder), g.distinct(lambda r: r.auction), 0
            )
        )
        .window(DAY)
        .agg(lambda g: DayCounts(date_of(g.window.start_ms), *counts(g)))
        .sink("q15")
    )


def q16(events: Events) -> None:
    """Bids, bidders and auctions of each channel and day, by rank, and the minute of the last bid."""
    bids = events.bids(ChannelDayBid)
    (
        bids.map(lambda b: Ranked(rank(b.price), b.channel, b.auction, b.bidder, b.time_ms))
        .union(bids.map(lambda b: Ranked(ALL, b.channel, b.auction, b.bidder, b.time_ms)))
        .key_by(lambda r: (r.channel, r.rank))
        .window(DAY)
        .agg(of_channel)
        .key_by(lambda r: r.channel)
        .window(DAY)
        .agg(of_day)
        .sink("q16")
    )


def q17(events: Events) -> None:
    """Bids on each auction and day: how many, by rank, and statistics of their prices."""
    (
        events.bids(Price)
        .key_by(lambda b: b.auction)
        .window(DAY)
        .agg(
            lambda g: AuctionDay(
                g.key,
                date_of(g.window.start_ms),
                g.count(),
                g.sum(lambda b: 1 if b.price < 10_000 else 0),
                g.sum(lambda b: 1 if 10_000 <= b.price < 1_000_000 else 0),
                g.sum(lambda b: 1 if b.price >= 1_000_000 else 0),
                g.min(lambda b: b.price),
                g.max(lambda b: b.price),
                truncated(g.sum(lambda b: b.price), g.count()),
                g.sum(lambda b: b.price),
            )
        )
        .sink("q17")
    )


def of_channel(g: Group[tuple[str, int], Ranked]) -> RankCounts:
    """The counts of one rank of a channel and day."""
    channel, number = g.key
    bidders, auctions = g.distinct(lambda r: r.bidder), g.distinct(lambda r: r.auction)
    return RankCounts(number, channel, g.count(), bidders, auctions, g.max(lambda r: r.time_ms))


def of_day(g: Group[str, RankCounts]) -> ChannelDayCounts:
    """The counts of a channel and day."""
    latest_ms = g.max(lambda r: r.latest_ms)
    return ChannelDayCounts(g.key, date_of(g.window.start_ms), minute_of(latest_ms), *counts(g))


def rank(price: int) -> int:
    """The rank of a bid."""
    if price < 10_000:
        return LOW
    return MIDDLE if price < 1_000_000 else HIGH


def counts(g: Group[Any, RankCounts]) -> tuple[int, ...]:
    """Bids, bidders and auctions of a day: of all ranks, then of each."""
    return (
        g.sum(lambda r: r.bids if r.rank == ALL else 0),
        g.sum(lambda r: r.bids if r.rank == LOW else 0),
        g.sum(lambda r: r.bids if r.rank == MIDDLE else 0),
        g.sum(lambda r: r.bids if r.rank == HIGH else 0),
        g.sum(lambda r: r.bidders if r.rank == ALL else 0),
        g.sum(lambda r: r.bidders if r.rank == LOW else 0),
        g.sum(lambda r: r.bidders if r.rank == MIDDLE else 0),
        g.sum(lambda r: r.bidders if r.rank == HIGH else 0),
        g.sum(lambda r: r.auctions if r.rank == ALL else 0),
        g.sum(lambda r: r.auctions if r.rank == LOW else 0),
        g.sum(lambda r: r.auctions if r.rank == MIDDLE else 0),
        g.sum(lambda r: r.auctions if r.rank == HIGH else 0),
    )
