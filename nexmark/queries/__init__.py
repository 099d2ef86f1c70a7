"""The benchmark's queries as Holon jobs: ``nexmark.queries:q7`` is what ``holon run`` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holon import BoundedOutOfOrderness, Job, Source
from nexmark.queries.averages import Averages, OfficialAverages, sales_and_bids
from nexmark.queries.columns import NexmarkColumns
from nexmark.queries.highest import Q7, Q7Max
from nexmark.queries.hot import READ_BACK_MS, Hot
from nexmark.queries.ratio import Query1
from nexmark.queries.sellers import NewSellers, persons_and_auctions
from nexmark.queries.stateless import Q0, Q1, Q2, bids, every_123rd

TOPIC = "nexmark"

_FULL_BID: dict[str, type] = {"auction": int, "bidder": int, "price": int, "dateTime": str, "extra": str}
_PRICE_OF: dict[str, type] = {"auction": int, "price": int}
_SALE: dict[str, type] = {"id": int, "category": int, "expires": str}
_PERSON: dict[str, type] = {"id": int, "name": str}


@dataclass(frozen=True, slots=True)
class Query:
    """A query: what it computes, what it reads of a record, and which records it is about.

    ``window_retention_ms``: how far back its windows are read (``Job.window_retention_ms``).
    """

    title: str
    process: Any
    format: NexmarkColumns
    filter: Callable[[Any], Any]
    window_retention_ms: int = 0


QUERIES = {
    "q0": Query("pass-through of bids", Q0, NexmarkColumns(_FULL_BID), bids),
    "q1": Query("bids with prices in euros", Q1, NexmarkColumns(_FULL_BID), bids),
    "q2": Query("bids on every 123rd auction", Q2, NexmarkColumns(_PRICE_OF), every_123rd),
    "q4": Query("average best bid by category, per window", Averages, NexmarkColumns(_PRICE_OF, _SALE), sales_and_bids),
    "q4official": Query(
        "average best bid by category, whole input", OfficialAverages, NexmarkColumns(_PRICE_OF, _SALE), sales_and_bids
    ),
    "q5": Query(
        "auctions with the most bids, per sliding window", Hot, NexmarkColumns({"auction": int}), bids, READ_BACK_MS
    ),
    "q7": Query("highest bids of each window", Q7, NexmarkColumns(_FULL_BID), bids),
    "q7max": Query("highest price and number of bids of each window", Q7Max, NexmarkColumns({"price": int}), bids),
    "q8": Query(
        "persons who sell in the window in which they came",
        NewSellers,
        NexmarkColumns(auction={"seller": int}, person=_PERSON),
        persons_and_auctions,
    ),
    "query1": Query("bids of each partition beside all, per window (Holon)", Query1, NexmarkColumns(), bids),
}


def nexmark_job(
    query: str,
    *,
    out_of_orderness_ms: int = 0,
    lateness_ms: int = 0,
    max_future_skew_ms: int | None = None,
    atoms: int = 0,
) -> Job:
    """The job of a query: from the topic ``nexmark`` to a topic of the query's name.

    ``atoms``: not 0 where the records are Arrow record batches instead of JSON.
    """
    spec = QUERIES[query]
    source = Source(
        TOPIC,
        _atoms(spec.format) if atoms else spec.format,
        timestamp="time_ms",
        filter=spec.filter,
        watermarks=BoundedOutOfOrderness(out_of_orderness_ms),
        max_future_skew_ms=max_future_skew_ms,
    )
    return Job(
        f"nexmark-{query}",
        source,
        spec.process,
        output=query,
        allowed_lateness_ms=lateness_ms,
        window_retention_ms=spec.window_retention_ms,
    )


def _atoms(columns: NexmarkColumns) -> Any:
    from nexmark.queries.atoms import NexmarkAtoms  # pyarrow comes with an extra, and takes its time

    return NexmarkAtoms(columns)


def __getattr__(name: str) -> Callable[..., Job]:
    """``q7`` and the others: functions that make the job, for ``MODULE:JOB``."""
    if name not in QUERIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def make(**options: Any) -> Job:
        return nexmark_job(name, **options)

    return make
