"""The cost of the dead-letter policy for handlers that write windows of a later stage, where none of them raises.

    python deploy/bench/lattices/failing_handlers.py [--windows 200] [--keys 10,1000,100000] [--rounds 5]

A handler of each short window inserts one count into a long window that has so many keys already, and uses a Local.
Microseconds of CPU a window, medians, both policies in turn; no log.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, Literal

import numpy as np

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.testing import JobTestDriver
from wcrdt import GCounter, MapOf

LONG_MS = 1 << 40


class Counting(ProcessingFunction[dict[str, int]]):
    """The first window brings the keys."""

    keys = 0
    count = WCRDT(GCounter(), Tumbling(10))
    by_key = WCRDT(MapOf(GCounter()), Tumbling(LONG_MS), stage=1)
    answered = Local(0, track="window", stage=0)

    def process(self, event: dict[str, int], ctx: Context) -> None:
        self.count.insert(1, event["ts"])

    @on_window(count)
    async def up(self, window: Window, ctx: Context) -> None:
        self.answered.value += 1
        count = await self.count.window_value(window)
        if window.start_ms == 0:
            keys = np.arange(self.keys)
            self.by_key.insert_many((keys, np.ones(self.keys, np.int64)), np.full(self.keys, window.start_ms))
        self.by_key.insert((window.start_ms % 997, count), window.start_ms)


def run(keys: int, windows: int, on_error: Literal["fail", "dead-letter"]) -> float:
    """Microseconds of CPU a window."""
    function = type("Counting", (Counting,), {"keys": keys})
    source: Source[Any] = Source("events", Json(dict[str, int]), lambda event: event["ts"], max_future_skew_ms=None)
    test = JobTestDriver(Job("test", source, function, output="out", on_error=on_error))
    test.feed(0, {"ts": 0}, {"ts": 11})
    began = time.process_time()
    test.feed(0, *({"ts": 10 * n + 1} for n in range(2, windows + 2)))
    return (time.process_time() - began) * 1e6 / windows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--keys", default="10,1000,100000")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| keys | fail | dead-letter | times |\n|---|---|---|---|")
    for keys in map(int, arguments.keys.split(",")):
        found: dict[str, list[float]] = {"fail": [], "dead-letter": []}
        for _ in range(arguments.rounds):
            found["fail"].append(run(keys, arguments.windows, "fail"))
            found["dead-letter"].append(run(keys, arguments.windows, "dead-letter"))
        fail, buried = (statistics.median(each) for each in found.values())
        print(f"| {keys:,} | {fail:.0f} | {buried:.0f} | {buried / fail:.2f} |", flush=True)


if __name__ == "__main__":
    main()
