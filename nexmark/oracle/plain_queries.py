"""The queries of the plain oracle, each a function from the accepted records to rows, as the benchmark defines them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from nexmark.oracle.plain_bids import BID_QUERIES
from nexmark.oracle.plain_records import (
    AUCTION,
    BID,
    HOP_MS,
    PERSON,
    WINDOW_MS,
    Accepted,
    OracleQuery,
    Row,
    last_hop_end,
    window_end,
)


class _Sale(NamedTuple):
    category: int
    opens_ms: int
    expires_ms: int


def q0(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Every bid as it is."""
    for record in records:
        yield {name: record.fields[name] for name in ("auction", "bidder", "price", "dateTime", "extra")}


def q1(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Every bid with its price times 0.908, exactly, as text with three decimals."""
    for row in q0(records, _):
        thousandths = row["price"] * 908
        whole, fraction = divmod(abs(thousandths), 1000)
        row["price"] = f"{'-' if thousandths < 0 else ''}{whole}.{fraction:03d}"
        yield row


def q2(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Auction and price of what the filter lets through."""
    for record in records:
        yield {name: record.fields[name] for name in ("auction", "price")}


def q3(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Auctions in category 10 with their sellers, where these live in one of three states."""
    persons: dict[int, list[dict[str, Any]]] = defaultdict(list)
    sales: list[dict[str, Any]] = []
    for record in records:
        if record.kind == PERSON:
            persons[record.fields["id"]].append(record.fields)
        else:
            sales.append(record.fields)
    for sale in sales:
        for person in persons.get(sale["seller"], ()):
            yield {name: person[name] for name in ("name", "city", "state")} | {"id": sale["id"]}


def q4(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """For each window the average, by category, of the best bids of the window's auctions."""
    by_window: dict[int, list[Accepted]] = defaultdict(list)
    for record in records:
        by_window[window_end(record.time_ms)].append(record)
    for end, members in by_window.items():
        for category, average in _averages(members):
            yield {"window_end": end, "category": category, "avg": average}


def q4official(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The average, by category, of the best bids of all auctions: the last state of the official query."""
    for category, average in _averages(list(records)):
        yield {"category": category, "avg": average}


def _averages(records: list[Accepted]) -> Iterator[tuple[int, int]]:
    """(category, average of the best valid bid of each auction, truncated towards zero)."""
    sales: dict[int, list[_Sale]] = defaultdict(list)
    for record in records:
        if record.kind == AUCTION:
            fields = record.fields
            sales[fields["id"]].append(_Sale(fields["category"], record.time_ms, fields["expires"]))
    best: dict[tuple[int, int], int] = {}
    for record in records:
        if record.kind != BID:
            continue
        auction, price = record.fields["auction"], record.fields["price"]
        for sale in sales.get(auction, ()):
            if sale.opens_ms <= record.time_ms <= sale.expires_ms:
                key = (auction, sale.category)
                best[key] = max(best.get(key, price), price)
    finals: dict[int, list[int]] = defaultdict(list)
    for (_, category), price in best.items():
        finals[category].append(price)
    for category, prices in finals.items():
        total, count = sum(prices), len(prices)
        yield category, (total // count if total >= 0 else -(-total // count))


def q5(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """For each sliding window the auctions with the most bids; ties all come out."""
    bids: dict[int, Counter[int]] = defaultdict(Counter)
    for record in records:
        last = last_hop_end(record.time_ms)
        for end in range(last, record.time_ms, -HOP_MS):
            if record.closed_ms is None or end > record.closed_ms:
                bids[end][record.fields["auction"]] += 1
    for end, counted in bids.items():
        most = max(counted.values())
        for auction, number in counted.items():
            if number == most:
                yield {"auction": auction, "num": number, "window_end": end}


def q8(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """For each window the persons that came and, in the same window, put something up for auction."""
    came: dict[int, set[tuple[int, str]]] = defaultdict(set)
    sell: dict[int, set[int]] = defaultdict(set)
    for record in records:
        end = window_end(record.time_ms)
        if record.kind == PERSON:
            came[end].add((record.fields["id"], record.fields["name"]))
        else:
            sell[end].add(record.fields["seller"])
    for end, persons in came.items():
        for number, name in persons:
            if number in sell[end]:
                yield {"id": number, "name": name, "starttime": end - WINDOW_MS}


def q7(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The bids at the highest price of their window; ties all come out.

    The official join takes both borders of the window. So a bid exactly at a window's end matches that window too, if
    its price is the maximum of the window's own bids.
    """
    highest: dict[int, int] = {}
    candidates: dict[int, list[Accepted]] = defaultdict(list)
    for record in records:
        end, price = window_end(record.time_ms), record.fields["price"]
        highest[end] = max(highest.get(end, price), price)
        at_border = [record.time_ms] if record.time_ms % WINDOW_MS == 0 else []
        for match in [end, *at_border]:
            if price >= highest.get(match, price):
                candidates[match].append(record)
    for end, price in highest.items():
        for record in candidates[end]:
            if record.fields["price"] == price:
                names = ("auction", "price", "bidder", "dateTime", "extra")
                yield {name: record.fields[name] for name in names} | {"window_end": end}


def q7max(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """For each window the highest price and the number of bids."""
    prices: dict[int, list[int]] = {}  # maximum, count
    for record in records:
        price = record.fields["price"]
        state = prices.setdefault(window_end(record.time_ms), [price, 0])
        state[0] = max(state[0], price)
        state[1] += 1
    for end, (highest, bids) in prices.items():
        yield {"window_end": end, "max_price": highest, "bids": bids}


def query1(records: Iterable[Accepted], partitions: int) -> Iterator[Row]:
    """For each window with bids and each partition: the bids of the partition (may be 0) and those of all."""
    local: dict[int, list[int]] = defaultdict(lambda: [0] * partitions)
    for record in records:
        local[window_end(record.time_ms)][record.partition] += 1
    for end, bids in local.items():
        for partition, count in enumerate(bids):
            yield {"partition": partition, "window": end, "local": count, "global": sum(bids)}


def _is_bid(kind: int, _: dict[str, Any]) -> bool:
    return kind == BID


def _is_local(kind: int, fields: dict[str, Any]) -> bool:
    """The persons and auctions of q3."""
    if kind == PERSON:
        return fields["state"] in ("OR", "ID", "CA")
    return kind == AUCTION and fields["category"] == 10


_TIME: dict[str, type] = {"dateTime": str}
_FULL_BID: dict[str, type] = {"auction": int, "bidder": int, "price": int, "dateTime": str, "extra": str}
_PRICE_OF: dict[str, type] = {"auction": int, "price": int, "dateTime": str}
_SALE: dict[str, type] = {"id": int, "category": int, "dateTime": str, "expires": str}
_PERSON: dict[str, type] = {"id": int, "name": str, "dateTime": str}
_SELLS: dict[str, type] = {"seller": int, "dateTime": str}
_RESIDENT: dict[str, type] = {"id": int, "name": str, "city": str, "state": str, "dateTime": str}
_LISTED: dict[str, type] = {"id": int, "seller": int, "category": int, "dateTime": str}

QUERIES = {
    "q0": OracleQuery((_TIME, _TIME, _FULL_BID), _is_bid, False, q0),
    "q1": OracleQuery((_TIME, _TIME, _FULL_BID), _is_bid, False, q1),
    "q2": OracleQuery(
        (_TIME, _TIME, _PRICE_OF), lambda kind, fields: kind == BID and fields["auction"] % 123 == 0, False, q2
    ),
    "q3": OracleQuery((_RESIDENT, _LISTED, _TIME), _is_local, False, q3),
    "q4": OracleQuery((_TIME, _SALE, _PRICE_OF), lambda kind, _: kind != PERSON, True, q4),
    "q4official": OracleQuery((_TIME, _SALE, _PRICE_OF), lambda kind, _: kind != PERSON, False, q4official),
    "q5": OracleQuery((_TIME, _TIME, {"auction": int, "dateTime": str}), _is_bid, True, q5, last_hop_end),
    "q7": OracleQuery((_TIME, _TIME, _FULL_BID), _is_bid, True, q7),
    "q7max": OracleQuery((_TIME, _TIME, {"price": int, "dateTime": str}), _is_bid, True, q7max),
    "q8": OracleQuery((_PERSON, _SELLS, _TIME), lambda kind, _: kind != BID, True, q8),
    "query1": OracleQuery((_TIME, _TIME, _TIME), _is_bid, True, query1),
    **BID_QUERIES,
}
