"""Events as JSON, one record each, with the keys in the order of the reference's tables.

Formatted by hand, because all text of the generator is letters, digits, blanks and ``@ . _ - / : & = ?``: nothing needs
escaping. Python's f-strings are the quickest of what was measured (docs/nexmark.md).
"""

from __future__ import annotations

import numpy as np

from nexmark.generator.events import Auctions, Bids, Events, Persons
from nexmark.times import format_times_ms


def encode_json(events: Events) -> list[bytes]:
    """One JSON record (bytes, no line end) for each event, in the order of the slice."""
    records = np.empty(len(events), dtype=object)
    for rows, encoded in (
        (events.persons.rows, _encode_persons(events.persons)),
        (events.auctions.rows, _encode_auctions(events.auctions)),
        (events.bids.rows, _encode_bids(events.bids)),
    ):
        records[rows] = encoded
    return records.tolist()


def _encode_persons(persons: Persons) -> list[bytes]:
    columns = (
        persons.id.tolist(),
        persons.name,
        persons.email_address,
        persons.credit_card,
        persons.city,
        persons.state,
        format_times_ms(persons.time_ms),
        persons.extra,
    )
    return [
        f'{{"event_type":0,"person":{{"id":{id_},"name":"{name}","emailAddress":"{email}","creditCard":"{card}",'
        f'"city":"{city}","state":"{state}","dateTime":"{time}","extra":"{extra}"}},'
        f'"auction":null,"bid":null}}'.encode()
        for id_, name, email, card, city, state, time, extra in zip(*columns, strict=True)
    ]


def _encode_auctions(auctions: Auctions) -> list[bytes]:
    columns = (
        auctions.id.tolist(),
        auctions.item_name,
        auctions.description,
        auctions.initial_bid.tolist(),
        auctions.reserve.tolist(),
        format_times_ms(auctions.time_ms),
        format_times_ms(auctions.expires_ms),
        auctions.seller.tolist(),
        auctions.category.tolist(),
        auctions.extra,
    )
    return [
        f'{{"event_type":1,"person":null,"auction":{{"id":{id_},"itemName":"{name}","description":"{text}",'
        f'"initialBid":{initial},"reserve":{reserve},"dateTime":"{time}","expires":"{expires}","seller":{seller},'
        f'"category":{category},"extra":"{extra}"}},"bid":null}}'.encode()
        for id_, name, text, initial, reserve, time, expires, seller, category, extra in zip(*columns, strict=True)
    ]


def _encode_bids(bids: Bids) -> list[bytes]:
    columns = (
        bids.auction.tolist(),
        bids.bidder.tolist(),
        bids.price.tolist(),
        bids.channel,
        format_times_ms(bids.time_ms),
        bids.extra,
    )
    return [
        f'{{"event_type":2,"person":null,"auction":null,"bid":{{"auction":{auction},"bidder":{bidder},"price":{price},'
        f'"channel":"{channel}","url":"{url}","dateTime":"{time}","extra":"{extra}"}}}}'.encode()
        for auction, bidder, price, (channel, url), time, extra in zip(*columns, strict=True)
    ]
