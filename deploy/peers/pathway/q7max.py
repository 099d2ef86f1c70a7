"""The highest price and the number of bids of each window of 10 s, by Pathway.

Run by the environment of ``requirements.txt``, never by Holon's. Prints when the computation was started, results, and
the end. Workers are threads: ``PATHWAY_THREADS``. Events are read by Pathway's own reader of Kafka and JSON, outside
Python; all that is in the topic is read.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pathway as pw

WINDOW_MS = 10_000
BID = 2
READER = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "200000",
    "fetch.message.max.bytes": "4194304",
    "check.crcs": "false",
}


class Event(pw.Schema, append_only=True):
    """The fields that the query needs; of an event that is no bid the last two are missing."""

    event_type: int
    price: int | None = pw.column_definition(default_value=None)
    time: str | None = pw.column_definition(default_value=None)


PATHS = {"price": "/bid/price", "time": "/bid/dateTime"}


def results(options: argparse.Namespace) -> pw.Table:
    """The query. Times of a window of 10 s begin with the same text, so that none has to be parsed."""
    settings = {"bootstrap.servers": options.bootstrap, "group.id": options.group, **READER}
    events = pw.io.kafka.read(
        settings, options.topic, schema=Event, mode="static", format="json", json_field_paths=PATHS
    )
    bids = events.filter(pw.this.event_type == BID)
    window = pw.apply_with_type(lambda text: text[:18], str, pw.this.time)
    parts = bids.select(window=window, price=pw.unwrap(pw.this.price))
    return parts.groupby(pw.this.window).reduce(
        pw.this.window, max_price=pw.reducers.max(pw.this.price), bids=pw.reducers.count()
    )


def keep(last: dict[str, dict[str, Any]]) -> Callable[..., None]:
    """Of the changes of a window's result the last is it."""

    def changed(key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            last[row["window"]] = row

    return changed


def end_ms(window: str) -> int:
    """Of a window by the text that its times begin with."""
    begin = datetime.fromisoformat(f"{window}0").replace(tzinfo=UTC)
    return int(begin.timestamp()) * 1000 + WINDOW_MS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="pathway")
    parser.add_argument("--partitions", help="as many as the topic has")
    options = parser.parse_args()
    last: dict[str, dict[str, Any]] = {}
    pw.io.subscribe(results(options), on_change=keep(last))
    print(f"began {time.time()}", flush=True)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    ended_s = time.time()
    for window, row in last.items():
        print("row " + json.dumps({"window_end": end_ms(window), "max_price": row["max_price"], "bids": row["bids"]}))
    print(f"ended {ended_s}", flush=True)
    sys.stdin.read()  # until its CPU time has been read


if __name__ == "__main__":
    main()
