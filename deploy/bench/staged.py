"""The cost of windows that are complete together, with stages and without: CPU time of one process, and deltas.

    .venv/bin/python deploy/bench/staged.py [--windows 500,1000,2000,4000] [--partitions 3]

A job whose handlers of complete windows write into windows of stage 1 (``staged``; ``ordered`` with a Local that
handlers of both stages use), and one without stages. Neither has a log. All partitions but one have read their input,
then the last one ends. Each delta of a partition costs a round trip on a log. Writes staged.json and staged.md.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.testing import JobTestDriver
from nexmark.pictures import write_files
from wcrdt import GCounter
from wcrdt.replica.replica import Received, Replica, SlotDelta

Event = dict[str, Any]


class Plain(ProcessingFunction[Event]):
    """A result for each window."""

    count = WCRDT(GCounter(), Tumbling(10))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)

    @on_window(count)
    async def answer(self, window: Window, ctx: Context) -> None:
        ctx.emit(await self.count.window_value(window))


class Staged(Plain):
    """A result for each window of the second stage."""

    sums = WCRDT(GCounter(), Tumbling(10), stage=1)

    @on_window(Plain.count)
    async def answer(self, window: Window, ctx: Context) -> None:
        self.sums.insert(await self.count.window_value(window), window.start_ms)

    @on_window(sums)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit(await self.sums.window_value(window))


class Ordered(Staged):
    """Handlers of both stages may use the Local, so windows are answered one end after the other."""

    seen = Local(0, track="window")


FORMS: dict[str, type[Plain]] = {"plain": Plain, "staged": Staged, "ordered": Ordered}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", default="500,1000,2000,4000")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/staged"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    numbers = [int(number) for number in options.windows.split(",")]
    rows = [answer(name, number, options.partitions) for number in numbers for name in FORMS]
    text = "| windows | job | CPU, s | deltas a partition |\n|---|---|---|---|\n"
    for row in rows:
        text += f"| {row['windows']} | {row['job']} | {row['cpu_s']:.2f} | {row['deltas']:.0f} |\n"
    for path in write_files(options.out, "staged", {"rows": rows, "load": os.getloadavg()[0]}, text):
        print(path)
    print(text, end="")


def answer(name: str, windows: int, partitions: int) -> dict[str, Any]:
    """Everything that follows when the last of the partitions ends."""
    source = Source("events", Json(Event), lambda event: event["ts"])
    test = JobTestDriver(Job("staged", source, FORMS[name], output="out"), partitions)
    for partition in range(1, partitions):
        test.feed(partition, *({"ts": 10 * number} for number in range(windows)))
    test.feed(0, {"ts": 0})
    test.replica.__class__ = Counting
    Counting.deltas = 0
    began_s = time.process_time()
    test.finish()
    took_s = time.process_time() - began_s
    assert len(test.outputs()) == windows * partitions
    return {"windows": windows, "job": name, "cpu_s": took_s, "deltas": Counting.deltas / partitions}


class Counting(Replica):
    """Counts what it receives."""

    deltas = 0

    def receive(self, delta: SlotDelta) -> Received:
        """As ever."""
        Counting.deltas += 1
        return super().receive(delta)


if __name__ == "__main__":
    main()
