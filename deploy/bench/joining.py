"""How long results stay away when a node joins or leaves: of the partitions that move, and of those that stay.

    .venv/bin/python deploy/bench/joining.py [--rate 4000] [--partitions 8] [--rounds 3]

Two nodes work on a steady input (a result for every record); a third joins, and leaves at SIGTERM, some times. The
figures are gaps between the append times of results, by output partition: around each move, and elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Any

from holon import Context, Job, Json, ProcessingFunction, Source
from nodes.api import EmbeddedLog, Fleet, Monitor, declare_end, load_settings, open_job
from nodes.machine import messages as m
from nodes.machine.facts import PartitionClaimed
from nodes.machine.ownership.ownership import Ownership
from nodes.streams.control_history import JobControlHistory

AROUND_MS = 500
SETTLE_S = 3.0


class Pass(ProcessingFunction[dict[str, Any]]):
    """Every record is a result."""

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        ctx.emit(event)


def job() -> Job:
    source: Source[dict[str, Any]] = Source("in", Json(dict[str, Any]), timestamp=lambda event: event["ts"])
    return Job("passing", source, Pass, output="out")


def feed(log: EmbeddedLog, partitions: int, rate: int, over: threading.Event) -> None:
    """A hundred small batches a second to each partition."""
    number, batch, began = 0, max(1, rate // partitions // 100), time.monotonic()
    while not over.is_set():
        for partition in range(partitions):
            rows = [json.dumps({"ts": (number + n) * 10, "id": n}).encode() for n in range(batch)]
            log.append("in", partition, rows)
        number += batch
        over.wait(max(0.0, began + number / batch / 100 - time.monotonic()))


def until(monitor: Monitor, owners: set[int]) -> None:
    """Wait until exactly these nodes own partitions, and then some more."""
    while True:
        monitor.poll()
        ownership = monitor.ownership
        found = {ownership.members.get(owner or "", -1) for owner in ownership.owners().values()}
        if found == owners:
            break
        time.sleep(0.02)
    time.sleep(SETTLE_S)


def moves(log: EmbeddedLog, topic: str, began: int) -> list[tuple[int, int]]:
    """(time of the claim, partition) of what moved after offset ``began``."""
    ownership, found = Ownership(1), []
    chunk = log.read(topic, 0, 0, max_records=1 << 30, max_bytes=1 << 40)
    for at, stamp, value in zip(chunk.offsets.tolist(), chunk.timestamps_ms.tolist(), chunk.values, strict=True):
        for fact in ownership.apply(m.decode_control(value)):
            if isinstance(fact, PartitionClaimed) and at >= began:
                found.append((stamp, fact.partition))
    return found


def longest(stamps: list[int], start: int, end: int) -> int:
    """The longest gap that overlaps the time between."""
    first, last = max(0, bisect_left(stamps, start) - 1), min(len(stamps), bisect_left(stamps, end) + 1)
    return max((after - before for before, after in pairwise(stamps[first:last])), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=4000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        wanted = (f"log.path={path}", "node.merged_checkpoint_interval_ms=2000", "node.truncate_internal_topics=false")
        settings = load_settings(definitions=wanted, environ={}, directory=Path(folder))
        log = EmbeddedLog(path)
        log.create_topic("in", options.partitions)
        run = open_job(log, job())
        monitor, over = Monitor(log, run), threading.Event()
        feeder = threading.Thread(target=feed, args=(log, options.partitions, options.rate, over))
        root = str(Path(__file__).parents[2])
        with Fleet("deploy.bench.joining:job", settings, 2, environment={"PYTHONPATH": root}) as fleet:
            feeder.start()
            until(monitor, {0, 1})
            began = JobControlHistory(log, run.job).offset
            for number in range(2, 2 + options.rounds):
                fleet.add(number)
                until(monitor, {0, 1, number})
                fleet.running()[-1].process.terminate()
                until(monitor, {0, 1})
            over.set()
            feeder.join()
            declare_end(log, run)
            while not monitor.done:
                monitor.poll()
                time.sleep(0.05)
        report(log, run.job.control_topic, options.partitions, began)
        log.close()


def report(log: EmbeddedLog, control: str, partitions: int, began: int) -> None:
    moved = moves(log, control, began)
    stamps = []
    for partition in range(partitions):
        chunk = log.read("out", partition, 0, max_records=1 << 30, max_bytes=1 << 40)
        stamps.append(chunk.timestamps_ms.tolist())
    rows: dict[str, list[int]] = {"moved": [], "stayed, at the same time": []}
    for at, partition in moved:
        rows["moved"].append(longest(stamps[partition], at - AROUND_MS, at + AROUND_MS))
        for other in range(partitions):
            if not any(p == other and abs(when - at) < 2 * AROUND_MS for when, p in moved):
                rows["stayed, at the same time"].append(longest(stamps[other], at - AROUND_MS, at + AROUND_MS))
    times = [when for when, _ in moved]
    quiet = [t for t in range(times[0], times[-1], AROUND_MS) if all(abs(t - when) > 2 * AROUND_MS for when in times)]
    rows["at other times"] = [longest(s, t, t + AROUND_MS) for t in quiet for s in stamps]
    print(f"{len(moved)} moves; load {os.getloadavg()[0]:.1f}; longest gap between results within 1 s, in ms")
    for name, gaps in rows.items():
        if gaps:
            print(f"{name}: median {statistics.median(gaps):.0f}, max {max(gaps)} ({len(gaps)})")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
