"""Whether an event costs the same after 100 million others: CPU time and own memory at 1, 3, 10, 30, 100 M.

    .venv/bin/python deploy/bench/flatness.py [--query q7] [--events 100000000] [--out runs/flatness]

One node process with all that it does in production, on the embedded log, but for its input. That is batches of 20,000
events, made on the fly from a pool of real ones with new times; their cost is taken off. So the cost of reading them
from a log is not in it, and no disk has to hold 33 GB. About 1.5 minutes for 100 M on a quiet machine. Exit code 1 if a
record was lost. Writes flatness.json, flatness.md and flatness.svg.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.endless import Endless
from nexmark.bench.machine import machine
from nexmark.pictures import picture, write_files
from nexmark.queries import TOPIC, nexmark_job
from nodes.checkpoints.opening import open_checkpoints
from nodes.fleet.monitor import Monitor
from nodes.metrics.process_memory import private_bytes
from nodes.runtime.log_opening import open_job_log
from nodes.settings.settings import load_settings
from nodes.streams.jobs import declare_end, open_job
from nodes.streams.process import NodeProcess, node_config

MARKS = (1, 3, 10, 30, 100)
"""Million events."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="q7")
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("runs/flatness"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = measured(options.query, options.events, options.partitions)
    write_files(options.out, "flatness", found, markdown(found), lambda path: plot(found["rows"], path))
    print(markdown(found))
    if not found["conserved"]:
        raise SystemExit(1)


def measured(query: str, events: int, partitions: int) -> dict[str, Any]:
    """One run in a process of its own; a row at every mark, and at the end."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    with tempfile.TemporaryDirectory(prefix="holon-flatness-") as folder:
        process = context.Process(target=_run, args=(folder, query, events, partitions, queue))
        process.start()
        rows, conserved = queue.get()
        process.join()
    return {
        "query": query, "events": events, "rows": rows, "conserved": conserved, "flat": flat(rows),
        "load": round(os.getloadavg()[0], 1), "machine": machine(),
    }  # fmt: skip


def flat(rows: Sequence[dict[str, Any]]) -> float | None:
    """The last stretch's cost of an event over that of the second (in the first, things are made once)."""
    return round(rows[-1]["us_per_event"] / rows[1]["us_per_event"], 2) if len(rows) > 2 else None


def _run(folder: str, query: str, events: int, partitions: int, queue: Any) -> None:
    settings = load_settings(definitions=[f"log.path={folder}"], environ={})
    with open_job_log(settings) as log:
        log.create_topic(TOPIC, partitions)
        source = Endless(TOPIC, partitions, events // partitions)
        source.on(log)
        run = open_job(log, nexmark_job(query))
        declare_end(log, run, [source.records] * partitions)
        process = NodeProcess(run, log, open_checkpoints(settings), node_config(settings, 0, 1), settings)
        marks = Marks(source, events)
        turn = process.driver.turn

        def watched(*arguments: Any) -> bool:
            moved = turn(*arguments)
            marks.record(process.driver.input_records)
            return moved

        process.driver.turn = watched  # type: ignore[method-assign]
        process.loop()
        marks.record(process.driver.input_records)
        monitor = Monitor(log, run)
        monitor.poll()
        queue.put((marks.rows, monitor.done and monitor.counts().taken == events // partitions * partitions))


class Marks:
    """A row whenever so many events have been processed."""

    def __init__(self, source: Endless, events: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._source = source
        self._due = [mark * 1_000_000 for mark in MARKS if mark * 1_000_000 < events] + [events]
        self._before = (0, time.process_time() - source.made_s, time.monotonic())

    def record(self, events: int) -> None:
        """So many have been processed by now."""
        if not self._due or events < self._due[0]:
            return
        while self._due and events >= self._due[0]:
            self._due.pop(0)
        used_s, now_s = time.process_time() - self._source.made_s, time.monotonic()
        before, used_before_s, before_s = self._before
        self._before = events, used_s, now_s
        self.rows.append({
            "events": events, "us_per_event": round((used_s - used_before_s) / (events - before) * 1e6, 3),
            "events_per_s": round((events - before) / (now_s - before_s)),
            "own_mb": round(private_bytes(os.getpid()) / 1e6, 1),
        })  # fmt: skip


def markdown(found: dict[str, Any]) -> str:
    """The table of docs/performance.md."""
    lines = [
        f"{found['query']}, load {found['load']}; the last stretch costs {found['flat']} times the second an event.",
        "",
        "| events so far | CPU µs an event since the row above | own memory MB |",
        "|---|---|---|",
    ]
    lines += [f"| {row['events']:,} | {row['us_per_event']:.3f} | {row['own_mb']} |" for row in found["rows"]]
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Cost and memory over the number of events."""
    with picture(path, 1, 2, (9, 4)) as (_, axes):
        for axis, name, label in zip(
            axes, ("us_per_event", "own_mb"), ("CPU µs an event", "own memory, MB"), strict=True
        ):
            axis.plot([row["events"] for row in rows], [row[name] for row in rows], "o-")
            axis.set(xscale="log", xlabel="events", ylabel=label, ylim=(0, None))
            axis.grid(alpha=0.3)


if __name__ == "__main__":
    main()
