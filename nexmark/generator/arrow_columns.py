"""Generated events as typed Arrow columns.

A record of a log holds one record batch of them: a dense union of persons, auctions and bids, each with columns of its
own. Tables have one struct column a kind, null where the event is of another kind. Values under a null struct are zeros
and empty texts, so that columns of integers need no mask of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.writing import write_atom
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
ATOM_ROWS = 4096
"""Events of an atom: some 840 KB, below Kafka's usual limit of 1 MB a record."""

Unit = Literal["ms", "us"]
_PER_MS = {"ms": 1, "us": 1000}
Values = list[str] | NDArray[np.int64] | pa.Array


def to_arrow(events: Events) -> pa.RecordBatch:
    """The columns of `SPARK_SCHEMA`; times are UTC without a zone."""
    return wide_batch(events, pa.int32(), "us")


def encode_atom(events: Events) -> bytes:
    """All events as one record of a log: an Arrow stream of one batch with the column ``event``, times in ms."""
    fields = {"person": _persons(events.persons, "ms"), "auction": _auctions(events.auctions, "ms"),
              "bid": _bids(events.bids, "ms")}  # fmt: skip
    places = np.zeros(len(events), np.int32)
    for rows in (events.persons.rows, events.auctions.rows, events.bids.rows):
        places[rows] = np.arange(len(rows))
    structs = [pa.StructArray.from_arrays(list(map(_column, of.values())), names=list(of)) for of in fields.values()]
    union = pa.UnionArray.from_dense(pa.array(events.kinds, pa.int8()), pa.array(places), structs, list(fields))
    return write_atom(pa.RecordBatch.from_arrays([union], ["event"]))


def _column(values: Values) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return pa.array(values, pa.int64() if isinstance(values, np.ndarray) else pa.string())


def wide_batch(events: Events, kind: pa.DataType, unit: Unit) -> pa.RecordBatch:
    """``event_type`` of the type ``kind`` and a struct for each kind; with int8 and ``ms`` it is an atom as before."""
    count = len(events)
    columns = {
        "event_type": pa.array(events.kinds, kind),
        "person": _spread(_persons(events.persons, unit), events.persons.rows, count),
        "auction": _spread(_auctions(events.auctions, unit), events.auctions.rows, count),
        "bid": _spread(_bids(events.bids, unit), events.bids.rows, count),
    }
    return pa.RecordBatch.from_pydict(columns)


def _spread(columns: Mapping[str, Values], rows: NDArray[np.int64], count: int) -> pa.StructArray:
    """A struct at each of these rows, nulls elsewhere."""
    absent = np.ones(count, dtype=bool)
    absent[rows] = False
    children = [_spread_column(values, rows, count) for values in columns.values()]
    return pa.StructArray.from_arrays(children, names=list(columns), mask=pa.array(absent))


def _spread_column(values: Values, rows: NDArray[np.int64], count: int) -> pa.Array:
    if isinstance(values, list):
        return _spread_texts(values, rows, count)
    of = pa.int64() if isinstance(values, np.ndarray) else values.type
    numbers = np.zeros(count, dtype=np.int64)
    numbers[rows] = values if isinstance(values, np.ndarray) else values.cast(pa.int64()).to_numpy()
    return pa.array(numbers).cast(of)


def _spread_texts(texts: Sequence[str], rows: NDArray[np.int64], count: int) -> pa.StringArray:
    """The texts follow each other in the buffer as they did; only where they begin has a place for each row."""
    encoded = [text.encode() for text in texts]
    ends = np.zeros(count + 1, dtype=np.int32)
    ends[rows + 1] = [len(text) for text in encoded]
    np.cumsum(ends, out=ends)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def _times(times_ms: NDArray[np.int64], unit: Unit) -> pa.Array:
    return pa.array(times_ms * _PER_MS[unit], pa.timestamp(unit))


def _persons(persons: Persons, unit: Unit) -> dict[str, Any]:
    return {
        "id": persons.id,
        "name": persons.name,
        "emailAddress": persons.email_address,
        "creditCard": persons.credit_card,
        "city": persons.city,
        "state": persons.state,
        "dateTime": _times(persons.time_ms, unit),
        "extra": persons.extra,
    }


def _auctions(auctions: Auctions, unit: Unit) -> dict[str, Any]:
    return {
        "id": auctions.id,
        "itemName": auctions.item_name,
        "description": auctions.description,
        "initialBid": auctions.initial_bid,
        "reserve": auctions.reserve,
        "dateTime": _times(auctions.time_ms, unit),
        "expires": _times(auctions.expires_ms, unit),
        "seller": auctions.seller,
        "category": auctions.category,
        "extra": auctions.extra,
    }


def _bids(bids: Bids, unit: Unit) -> dict[str, Any]:
    return {
        "auction": bids.auction,
        "bidder": bids.bidder,
        "price": bids.price,
        "channel": [channel.name for channel in bids.channel],
        "url": [channel.url for channel in bids.channel],
        "dateTime": _times(bids.time_ms, unit),
        "extra": bids.extra,
    }
