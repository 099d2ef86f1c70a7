"""The highest price and the number of bids of each window of 10 s, by Bytewax. One process of its cluster.

Run by the environment of ``requirements.txt``, never by Holon's. Prints when its source was polled first, results, and
the end.

``--style folded`` decodes and folds each batch of records in one loop, so that one value a batch and window goes
through Bytewax's window operator: what an expert would do. ``--style windows`` gives it every bid.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
import bytewax.operators.windowing as windowing
import msgspec
from bytewax._bytewax import cluster_main
from bytewax.dataflow import Dataflow
from kafka_source import Printed, Source

WINDOW = timedelta(seconds=10)
WINDOW_MS = 10_000
BID = 2
ALIGN = datetime(2025, 1, 1, tzinfo=UTC)
Partial = tuple[int, int, int]
"""End of the window in ms, highest price, bids."""


class Price(msgspec.Struct, gc=False):
    """The fields that the query needs."""

    price: int
    dateTime: str  # noqa: N815  (the record's own name)


class Event(msgspec.Struct, gc=False):
    """Of a record."""

    event_type: int
    bid: Price | None = None


decode = msgspec.json.Decoder(Event).decode
_ends: dict[str, int] = {}


def end_ms(text: str) -> int:
    """End of the window that ``2025-01-01 00:00:00.123`` falls into; parsed once for each second."""
    second = text[:19]
    found = _ends.get(second)
    if found is None:
        at_ms = int(datetime.fromisoformat(second).replace(tzinfo=UTC).timestamp()) * 1000
        found = _ends[second] = at_ms - at_ms % WINDOW_MS + WINDOW_MS
    return found


def at(end: int) -> datetime:
    """A time within the window that ends then."""
    return datetime.fromtimestamp(end / 1000, UTC) - WINDOW


def folded(payloads: Iterable[bytes]) -> list[tuple[str, Partial]]:
    """Of a batch: the highest price and the number of bids of each window."""
    highest: dict[int, int] = {}
    bids: dict[int, int] = {}
    for payload in payloads:
        event = decode(payload)
        if event.event_type == BID:
            bid = event.bid
            assert bid is not None, "a bid has its fields"
            end, price = end_ms(bid.dateTime), bid.price
            if end not in highest:
                highest[end], bids[end] = price, 1
                continue
            bids[end] += 1
            if price > highest[end]:
                highest[end] = price
    return [("all", (end, price, bids[end])) for end, price in highest.items()]


def single(payloads: Iterable[bytes]) -> list[tuple[str, Partial]]:
    """Of a batch: each bid."""
    found: list[tuple[str, Partial]] = []
    for payload in payloads:
        event = decode(payload)
        if event.event_type == BID:
            bid = event.bid
            assert bid is not None, "a bid has its fields"
            found.append(("all", (end_ms(bid.dateTime), bid.price, 1)))
    return found


def higher(state: Partial, value: Partial) -> Partial:
    """Of two parts of a window (the first may be empty): both together."""
    return value[0], max(state[1], value[1]), state[2] + value[2]


def row(found: tuple[str, tuple[int, Partial]]) -> str:
    """A result as JSON."""
    end, price, bids = found[1][1]
    return json.dumps({"window_end": end, "max_price": price, "bids": bids})


def dataflow(options: argparse.Namespace) -> Dataflow:
    """The query."""
    flow = Dataflow("q7max")
    payloads = op.input("events", flow, Source(options.bootstrap, options.topic, options.partitions))
    parts = op.flat_map_batch("bids", payloads, folded if options.style == "folded" else single)
    # Workers read partitions at their own pace: nothing is late, and a window closes at the end of the input.
    clock = windowing.EventClock(lambda part: at(part[0]), timedelta(days=3650))
    windower = windowing.TumblingWindower(WINDOW, ALIGN)
    found = windowing.fold_window("highest", parts, clock, windower, lambda: (0, -1, 0), higher, higher, ordered=False)
    rows = op.map("row", found.down, row)
    op.output("results", rows, Printed())
    return flow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--style", choices=("folded", "windows"), default="folded")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--addresses", default="", help="of all processes of the cluster, separated by commas")
    options = parser.parse_args()
    addresses = [address for address in options.addresses.split(",") if address]
    cluster_main(dataflow(options), addresses, options.process)
    print(f"ended {time.time()}", flush=True)
    sys.stdin.read()  # until its CPU time has been read


if __name__ == "__main__":
    main()
