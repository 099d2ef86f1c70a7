"""Queries of the plain oracle that are about bids alone: sessions, days, and texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from nexmark.oracle.plain_records import BID, DAY_MS, WINDOW_MS, Accepted, OracleQuery, Row, day_end, window_end

GAP_MS = 10_000
_CHANNELS = ("apple", "google", "facebook", "baidu")


def q11(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The bids of each bidder's sessions: one ends where no bid comes for more than 10 s."""
    times: dict[int, list[int]] = defaultdict(list)
    for record in records:
        times[record.fields["bidder"]].append(record.time_ms)
    for bidder, found in times.items():
        found.sort()
        first = 0
        for at, time_ms in enumerate(found):
            if at + 1 == len(found) or found[at + 1] - time_ms > GAP_MS:
                ends = {"starttime": found[first], "endtime": time_ms + GAP_MS}
                yield {"bidder": bidder, "bid_count": at + 1 - first} | ends
                first = at + 1


def q12(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The bids of each bidder in each window of event time."""
    counted = Counter((record.fields["bidder"], window_end(record.time_ms)) for record in records)
    for (bidder, end), count in counted.items():
        yield {"bidder": bidder, "bid_count": count, "starttime": end - WINDOW_MS, "endtime": end}


def q14(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Bids with exact prices in euros, the time of day, and the number of letters c."""
    for record in records:
        fields = record.fields
        hour = record.time_ms % DAY_MS // 3_600_000
        kind = (
            "dayTime" if hour in range(8, 19) else "nightTime" if hour in (*range(7), *range(20, 24)) else "otherTime"
        )
        digits = f"{fields['price'] * 908:04d}"
        yield {
            "auction": fields["auction"], "bidder": fields["bidder"], "price": f"{digits[:-3]}.{digits[-3:]}",
            "bidTimeType": kind, "dateTime": fields["dateTime"], "extra": fields["extra"],
            "c_counts": sum(letter == "c" for letter in fields["extra"]),
        }  # fmt: skip


def q15(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The counts of each day."""
    for day, bids in _by(records, lambda record: _day(record.time_ms)).items():
        yield {"day": day} | _ranked(bids)


def q16(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The counts of each channel and day, and the minute of the last bid."""
    for (channel, day), bids in _by(records, lambda r: (r.fields["channel"], _day(r.time_ms))).items():
        last = _moment(max(bid.time_ms for bid in bids))
        yield {"channel": channel, "day": day, "minute": f"{last:%H:%M}"} | _ranked(bids)


def q17(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """The bids on each auction and day."""
    for (auction, day), bids in _by(records, lambda r: (r.fields["auction"], _day(r.time_ms))).items():
        prices = [bid.fields["price"] for bid in bids]
        ranks = Counter(map(_rank, prices))
        total = sum(prices)
        mean = total // len(prices) if total >= 0 else -(-total // len(prices))
        yield {
            "auction": auction, "day": day, "total_bids": len(prices),
            **{f"rank{rank}_bids": ranks[rank] for rank in (1, 2, 3)},
            "min_price": min(prices), "max_price": max(prices), "avg_price": mean, "sum_price": total,
        }  # fmt: skip


def q21(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Bids with the number of their channel: of a known one, or as the URL has it."""
    for record in records:
        fields = record.fields
        found = _channel_id(fields["channel"].lower(), fields["url"])
        if found is not None:
            yield {name: fields[name] for name in ("auction", "bidder", "price", "channel")} | {"channel_id": found}


def q22(records: Iterable[Accepted], _: int) -> Iterator[Row]:
    """Bids with three directories of their URL."""
    for record in records:
        fields = record.fields
        parts = dict(enumerate(fields["url"].split("/")))
        directories = {f"dir{number}": parts.get(number + 2) for number in (1, 2, 3)}
        yield {name: fields[name] for name in ("auction", "bidder", "price", "channel")} | directories


def _channel_id(channel: str, url: str) -> str | None:
    if channel in _CHANNELS:
        return str(_CHANNELS.index(channel))
    starts = [len("channel_id=")] if url.startswith("channel_id=") else []
    inner = url.find("&channel_id=")
    starts += [] if inner < 0 else [inner + len("&channel_id=")]
    return url[starts[0] :].partition("&")[0] if starts else None


def _by(records: Iterable[Accepted], key: Any) -> dict[Any, list[Accepted]]:
    found: dict[Any, list[Accepted]] = defaultdict(list)
    for record in records:
        found[key(record)].append(record)
    return found


def _ranked(bids: list[Accepted]) -> Row:
    """Bids, bidders and auctions: of all bids, and of each rank."""
    groups = {"total": bids} | {
        f"rank{rank}": [b for b in bids if _rank(b.fields["price"]) == rank] for rank in (1, 2, 3)
    }
    row: Row = {}
    for name, found in groups.items():
        row[f"{name}_bids"] = len(found)
        row[f"{name}_bidders"] = len({bid.fields["bidder"] for bid in found})
        row[f"{name}_auctions"] = len({bid.fields["auction"] for bid in found})
    return row


def _rank(price: int) -> int:
    return 1 if price < 10_000 else 2 if price < 1_000_000 else 3


def _moment(time_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)


def _day(time_ms: int) -> str:
    moment = _moment(time_ms)
    return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"


def _is_bid(kind: int, _: dict[str, Any]) -> bool:
    return kind == BID


def _is_medium(kind: int, fields: dict[str, Any]) -> bool:
    """Bids of more than 1,000,000 and less than 50,000,000 in euros."""
    return kind == BID and 1_000_000 * 1000 < fields["price"] * 908 < 50_000_000 * 1000


def _has_channel(kind: int, fields: dict[str, Any]) -> bool:
    return kind == BID and _channel_id(fields["channel"].lower(), fields["url"]) is not None


_TIME: dict[str, type] = {"dateTime": str}
_FULL_BID: dict[str, type] = {"auction": int, "bidder": int, "price": int, "dateTime": str, "extra": str}
_COUNTED: dict[str, type] = {"auction": int, "bidder": int, "price": int, "dateTime": str}
_OF_CHANNEL: dict[str, type] = {"auction": int, "bidder": int, "price": int, "channel": str, "dateTime": str}
_BIDDER: dict[str, type] = {"bidder": int, "dateTime": str}
_PRICE_OF: dict[str, type] = {"auction": int, "price": int, "dateTime": str}
_LOCATED: dict[str, type] = {**_OF_CHANNEL, "url": str}

BID_QUERIES = {
    "q11": OracleQuery((_TIME, _TIME, _BIDDER), _is_bid, True, q11),
    "q12": OracleQuery((_TIME, _TIME, _BIDDER), _is_bid, True, q12),
    "q14": OracleQuery((_TIME, _TIME, _FULL_BID), _is_medium, False, q14),
    "q15": OracleQuery((_TIME, _TIME, _COUNTED), _is_bid, True, q15, day_end),
    "q16": OracleQuery((_TIME, _TIME, _OF_CHANNEL), _is_bid, True, q16, day_end),
    "q17": OracleQuery((_TIME, _TIME, _PRICE_OF), _is_bid, True, q17, day_end),
    "q21": OracleQuery((_TIME, _TIME, _LOCATED), _has_channel, False, q21),
    "q22": OracleQuery((_TIME, _TIME, _LOCATED), _is_bid, False, q22),
}
