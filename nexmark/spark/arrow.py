"""Generated events as typed Arrow columns: one struct column a kind, null where the event is of another kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nexmark.generator import Auctions, Bids, Events, Persons

SPARK_SCHEMA = (
    "event_type int, "
    "person struct<id: bigint, name: string, emailAddress: string, creditCard: string, city: string, state: string, "
    "dateTime: timestamp_ntz, extra: string>, "
    "auction struct<id: bigint, itemName: string, description: string, initialBid: bigint, reserve: bigint, "
    "dateTime: timestamp_ntz, expires: timestamp_ntz, seller: bigint, category: bigint, extra: string>, "
    "bid struct<auction: bigint, bidder: bigint, price: bigint, channel: string, url: string, "
    "dateTime: timestamp_ntz, extra: string>"
)


def to_arrow(events: Events) -> pa.RecordBatch:
    """The columns of `SPARK_SCHEMA`; times are UTC without a zone."""
    count = len(events)
    columns = {
        "event_type": pa.array(events.kinds, pa.int32()),
        "person": _spread(_persons(events.persons), events.persons.rows, count),
        "auction": _spread(_auctions(events.auctions), events.auctions.rows, count),
        "bid": _spread(_bids(events.bids), events.bids.rows, count),
    }
    return pa.RecordBatch.from_pydict(columns)


def _spread(structs: pa.StructArray, rows: NDArray[np.int64], count: int) -> pa.Array:
    """Put the structs at their rows, nulls elsewhere."""
    index = np.zeros(count, dtype=np.int64)
    absent = np.ones(count, dtype=bool)
    index[rows] = np.arange(len(rows))
    absent[rows] = False
    return structs.take(pa.array(index, mask=absent))


def _struct(**columns: list[str] | NDArray[np.int64] | pa.Array) -> pa.StructArray:
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
    return pa.StructArray.from_arrays(arrays, names=list(columns))


def _texts(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string())  # also where there are none


def _times(times_ms: NDArray[np.int64]) -> pa.Array:
    return pa.array(times_ms * 1000, pa.timestamp("us"))


def _persons(persons: Persons) -> pa.StructArray:
    return _struct(
        id=persons.id,
        name=_texts(persons.name),
        emailAddress=_texts(persons.email_address),
        creditCard=_texts(persons.credit_card),
        city=_texts(persons.city),
        state=_texts(persons.state),
        dateTime=_times(persons.time_ms),
        extra=_texts(persons.extra),
    )


def _auctions(auctions: Auctions) -> pa.StructArray:
    return _struct(
        id=auctions.id,
        itemName=_texts(auctions.item_name),
        description=_texts(auctions.description),
        initialBid=auctions.initial_bid,
        reserve=auctions.reserve,
        dateTime=_times(auctions.time_ms),
        expires=_times(auctions.expires_ms),
        seller=auctions.seller,
        category=auctions.category,
        extra=_texts(auctions.extra),
    )


def _bids(bids: Bids) -> pa.StructArray:
    return _struct(
        auction=bids.auction,
        bidder=bids.bidder,
        price=bids.price,
        channel=_texts([channel.name for channel in bids.channel]),
        url=_texts([channel.url for channel in bids.channel]),
        dateTime=_times(bids.time_ms),
        extra=_texts(bids.extra),
    )
