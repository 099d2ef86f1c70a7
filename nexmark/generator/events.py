"""Events as columns: a pure function of (seed, event number), so any slice can be made anywhere, in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nexmark.generator.config import GeneratorConfig
from nexmark.generator.draws import draw, field_state, high_below, low_below
from nexmark.generator.prices import prices
from nexmark.generator.text import CACHED_CHANNELS, HOT_CHANNELS, Channel, channels, filler, phrases
from nexmark.generator.timeline import (
    ACTIVE_PEOPLE,
    AUCTION_LIFE_EVENTS,
    ID_LEAD,
    IN_FLIGHT_AUCTIONS,
    event_ids,
    kinds,
    last_auction,
    last_person,
    times_ms,
)
from nexmark.model import AUCTION, BID, PERSON

Numbers = NDArray[np.int64]

FIRST_PERSON_ID = FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID, CATEGORIES = 10, 5

HOT_BATCH = 100  # the hot seller, bidder and auction change with every so many new ones
HOT_AUCTION_ONE_IN, HOT_SELLER_ONE_IN, HOT_BIDDER_ONE_IN, HOT_CHANNEL_ONE_IN = 2, 4, 4, 2  # ... is *not* hot

PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100  # idealised sizes that `extra` fills up to

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")

# Fields: which stream of random numbers serves what. Never renumber: the golden digests depend on them.
_NAME, _EMAIL_USER, _EMAIL_HOST, _CARD, _HOME, _PERSON_EXTRA = range(6)
_SELLER, _CATEGORY, _INITIAL_BID, _RESERVE, _EXPIRES, _ITEM_NAME, _DESCRIPTION, _AUCTION_EXTRA = range(10, 18)
_BID_AUCTION, _BIDDER, _PRICE, _CHANNEL, _BID_EXTRA = range(20, 25)


@dataclass(frozen=True, slots=True)
class Persons:
    """Columns of the persons of a slice; ``rows`` are their places in it."""

    rows: Numbers
    id: Numbers
    name: list[str]
    email_address: list[str]
    credit_card: list[str]
    city: list[str]
    state: list[str]
    time_ms: Numbers
    extra: list[str]


@dataclass(frozen=True, slots=True)
class Auctions:
    """Columns of the auctions of a slice; ``rows`` are their places in it."""

    rows: Numbers
    id: Numbers
    item_name: list[str]
    description: list[str]
    initial_bid: Numbers
    reserve: Numbers
    time_ms: Numbers
    expires_ms: Numbers
    seller: Numbers
    category: Numbers
    extra: list[str]


@dataclass(frozen=True, slots=True)
class Bids:
    """Columns of the bids of a slice; ``rows`` are their places in it."""

    rows: Numbers
    auction: Numbers
    bidder: Numbers
    price: Numbers
    channel: list[Channel]
    time_ms: Numbers
    extra: list[str]


@dataclass(frozen=True, slots=True)
class Events:
    """A slice of the stream: the columns of each kind, and the kind and time of every event in order."""

    kinds: NDArray[np.int8]
    time_ms: Numbers
    persons: Persons
    auctions: Auctions
    bids: Bids

    def __len__(self) -> int:
        return len(self.kinds)


def generate(config: GeneratorConfig, numbers: Numbers) -> Events:
    """The events of these event numbers (not negative, in any order)."""
    ids = event_ids(config, numbers)
    kind = kinds(ids)
    person, auction, bid = (np.flatnonzero(kind == value) for value in (PERSON, AUCTION, BID))
    return Events(
        kinds=kind,
        time_ms=times_ms(config, ids),
        persons=_persons(config, person, ids[person]),
        auctions=_auctions(config, auction, ids[auction]),
        bids=_bids(config, bid, ids[bid]),
    )


def generate_slice(config: GeneratorConfig, first: int, stop: int, step: int = 1) -> Events:
    """The events first, first + step, ... below stop. Partition p of P is `generate_slice(config, p, events, P)`."""
    return generate(config, np.arange(first, stop, step, dtype=np.int64))


def _persons(config: GeneratorConfig, rows: Numbers, ids: Numbers) -> Persons:
    def bits(field: int) -> NDArray[np.uint64]:
        return draw(field_state(config.seed, field), ids)

    pick = bits(_NAME)
    name = [
        f"{FIRST_NAMES[first]} {LAST_NAMES[last]}"
        for first, last in zip(high_below(pick, 11).tolist(), low_below(pick, 9).tolist(), strict=True)
    ]
    users, hosts = phrases(config.seed, bits(_EMAIL_USER), 7), phrases(config.seed, bits(_EMAIL_HOST), 5)
    email = [f"{user}@{host}.com" for user, host in zip(users, hosts, strict=True)]
    card_bits = bits(_CARD)
    halves = zip(high_below(card_bits, 10**8).tolist(), low_below(card_bits, 10**8).tolist(), strict=True)
    card = [f"{a // 10_000:04d} {a % 10_000:04d} {b // 10_000:04d} {b % 10_000:04d}" for a, b in halves]
    home = bits(_HOME)
    city = [CITIES[index] for index in high_below(home, 10).tolist()]
    state = [STATES[index] for index in low_below(home, 6).tolist()]
    used = [8 + sum(map(len, texts)) for texts in zip(name, email, card, city, state, strict=True)]
    room = PERSON_BYTES - np.array(used, dtype=np.int64)
    return Persons(
        rows=rows,
        id=last_person(ids) + FIRST_PERSON_ID,
        name=name,
        email_address=email,
        credit_card=card,
        city=city,
        state=state,
        time_ms=times_ms(config, ids),
        extra=filler(config.seed, bits(_PERSON_EXTRA), room),
    )


def _auctions(config: GeneratorConfig, rows: Numbers, ids: Numbers) -> Auctions:
    def bits(field: int) -> NDArray[np.uint64]:
        return draw(field_state(config.seed, field), ids)

    seller_bits = bits(_SELLER)
    hot_seller = last_person(ids) // HOT_BATCH * HOT_BATCH
    is_hot = low_below(seller_bits, HOT_SELLER_ONE_IN) > 0
    time = times_ms(config, ids)
    life_ms = times_ms(config, ids + AUCTION_LIFE_EVENTS) - time
    initial_bid = prices(bits(_INITIAL_BID))
    item_name = phrases(config.seed, bits(_ITEM_NAME), 20)
    description = phrases(config.seed, bits(_DESCRIPTION), 100)
    used = [48 + len(name) + len(text) for name, text in zip(item_name, description, strict=True)]
    return Auctions(
        rows=rows,
        id=last_auction(ids) + FIRST_AUCTION_ID,
        item_name=item_name,
        description=description,
        initial_bid=initial_bid,
        reserve=initial_bid + prices(bits(_RESERVE)),
        time_ms=time,
        expires_ms=time + 1 + high_below(bits(_EXPIRES), np.maximum(2 * life_ms, 1)),
        seller=np.where(is_hot, hot_seller, _any_person(seller_bits, ids)) + FIRST_PERSON_ID,
        category=FIRST_CATEGORY_ID + high_below(bits(_CATEGORY), CATEGORIES),
        extra=filler(config.seed, bits(_AUCTION_EXTRA), AUCTION_BYTES - np.array(used, dtype=np.int64)),
    )


def _bids(config: GeneratorConfig, rows: Numbers, ids: Numbers) -> Bids:
    def bits(field: int) -> NDArray[np.uint64]:
        return draw(field_state(config.seed, field), ids)

    auction_bits, bidder_bits, channel_bits = bits(_BID_AUCTION), bits(_BIDDER), bits(_CHANNEL)
    newest = last_auction(ids)
    hot_auction = low_below(auction_bits, HOT_AUCTION_ONE_IN) > 0
    hot_bidder = low_below(bidder_bits, HOT_BIDDER_ONE_IN) > 0
    hot_person = last_person(ids) // HOT_BATCH * HOT_BATCH + 1
    hot_channel = CACHED_CHANNELS + high_below(channel_bits, len(HOT_CHANNELS))
    is_hot_channel = low_below(channel_bits, HOT_CHANNEL_ONE_IN) > 0
    entries = np.where(is_hot_channel, hot_channel, high_below(channel_bits, CACHED_CHANNELS))
    known = channels(config.seed)
    return Bids(
        rows=rows,
        auction=np.where(hot_auction, newest // HOT_BATCH * HOT_BATCH, _any_auction(auction_bits, newest))
        + FIRST_AUCTION_ID,
        # The reference adds the first id twice to a bidder; kept, so that results are the same.
        bidder=np.where(hot_bidder, hot_person, _any_person(bidder_bits, ids)) + 2 * FIRST_PERSON_ID,
        price=prices(bits(_PRICE)),
        channel=[known[entry] for entry in entries.tolist()],
        time_ms=times_ms(config, ids),
        extra=filler(config.seed, bits(_BID_EXTRA), np.full(len(ids), BID_BYTES - 32, dtype=np.int64)),
    )


def _any_person(bits: NDArray[np.uint64], ids: Numbers) -> Numbers:
    """Base-0 id of one of the active people, or of one of the next few to come."""
    people = last_person(ids) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return people - active + high_below(bits, active + ID_LEAD)


def _any_auction(bits: NDArray[np.uint64], newest: Numbers) -> Numbers:
    """Base-0 id of one of the auctions in flight, or of one of the next few to come."""
    oldest = np.maximum(newest - IN_FLIGHT_AUCTIONS, 0)
    return oldest + high_below(bits, newest - oldest + 1 + ID_LEAD)
