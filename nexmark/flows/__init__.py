"""The benchmark's queries as flows: ``nexmark.flows:q7`` is what ``holon run`` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holon.dataflow import Flow
from nexmark.flows import days, joins, stateless, windows
from nexmark.flows.events import Events


@dataclass(frozen=True, slots=True)
class FlowQuery:
    """A query: what it computes, and the steps that a flow of it gets."""

    title: str
    write: Callable[[Events], None]


FLOWS = {
    "q0": FlowQuery("pass-through of bids", stateless.q0),
    "q1": FlowQuery("bids with prices in euros", stateless.q1),
    "q2": FlowQuery("bids on every 123rd auction", stateless.q2),
    "q3": FlowQuery("auctions in a category of persons in three states, whole input", joins.q3),
    "q4": FlowQuery("average best bid by category, per window", joins.q4),
    "q4official": FlowQuery("average best bid by category, whole input", joins.q4official),
    "q5": FlowQuery("auctions with the most bids, per sliding window", windows.q5),
    "q7": FlowQuery("highest bids of each window", windows.q7),
    "q7max": FlowQuery("highest price and number of bids of each window", windows.q7max),
    "q8": FlowQuery("persons who sell in the window in which they came", windows.q8),
    "q11": FlowQuery("bids of each bidder's sessions", windows.q11),
    "q12": FlowQuery("bids of each bidder, per window", windows.q12),
    "q14": FlowQuery("bids of a medium price, with the time of day", stateless.q14),
    "q15": FlowQuery("bids, bidders and auctions of each day, by rank", days.q15),
    "q16": FlowQuery("bids, bidders and auctions of each channel and day, by rank", days.q16),
    "q17": FlowQuery("bids on each auction and day, and their prices", days.q17),
    "q21": FlowQuery("bids with the number of their channel", stateless.q21),
    "q22": FlowQuery("bids with the directories of their URL", stateless.q22),
}


def nexmark_flow(
    query: str,
    *,
    out_of_orderness_ms: int = 0,
    lateness_ms: int = 0,
    max_future_skew_ms: int | None = None,
    atoms: int = 0,
) -> Flow:
    """The flow of a query: from the topic ``nexmark`` to a topic of the query's name.

    ``atoms``: not 0 where the records are Arrow record batches instead of JSON.
    """
    flow = Flow(f"nexmark-{query}", lateness=lateness_ms)
    FLOWS[query].write(Events(flow, out_of_orderness_ms, max_future_skew_ms, bool(atoms)))
    return flow


def __getattr__(name: str) -> Callable[..., Flow]:
    """``q7`` and the others: functions that make the flow, for ``MODULE:JOB``."""
    if name not in FLOWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def make(**options: Any) -> Flow:
        return nexmark_flow(name, **options)

    return make
