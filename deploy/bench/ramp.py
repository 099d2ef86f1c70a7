"""The rate of input grows exponentially until throughput grows no more: q4 and q7 on 1, 2 and 4 node processes.

    .venv/bin/python deploy/bench/ramp.py [--queries q4,q7] [--nodes 1,2,4] [--events 6000000] [--out runs/ramp]

Holon, section 5.3: the rate begins low and doubles every --step seconds; the throughput is the highest of any step.
Events are generated once, into a topic of the embedded log, from which one producer process copies them at the step's
rate; producer and nodes share the machine's cores. A row says if events ran out, or the producer, before the nodes did.
Writes ramp.json, ramp.md and ramp.svg. About 25 s for each query and number of nodes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from nexmark.bench.machine import machine
from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream, load_partition
from nexmark.pictures import picture, write_files
from nexmark.processor_time import busy_s, cpu_s
from nexmark.queries import TOPIC, nexmark_job
from nodes.api import Fleet, Log, Monitor, load_settings, open_job, open_job_log, open_log, wait_for

STAGED = "staged"
PAPER = {"q4": (122_000, 10_400), "q7": (2_050_000, 1_090_000)}
"""Holon, section 5.3: its own and Flink's events a second, 10 nodes, 50 partitions, 50 producers."""
TICK_S = 0.01
START_S = 60.0


@dataclass(slots=True)
class Ramp:
    """When to go on: ``rate`` of the next step; ``over`` once ``patience`` steps in a row have brought less than
    ``gain`` times what was the most before them."""

    rate: float
    factor: float = 2.0
    gain: float = 1.05
    patience: int = 2
    best: float = 0.0
    _poor: int = field(default=0)

    @property
    def over(self) -> bool:
        """True if throughput does not grow any more."""
        return self._poor >= self.patience

    def told(self, throughput: float) -> None:
        """What the step with ``rate`` has brought."""
        self._poor = self._poor + 1 if throughput < self.gain * self.best else 0
        self.best = max(self.best, throughput)
        self.rate *= self.factor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default="q4,q7")
    parser.add_argument("--nodes", default="1,2,4")
    parser.add_argument("--events", type=int, default=6_000_000, help="generated, and the most that a ramp takes")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--start", type=float, default=20_000.0, help="events a second of the first step")
    parser.add_argument("--step", type=float, default=2.0, help="seconds")
    parser.add_argument("--out", type=Path, default=Path("runs/ramp"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="holon-ramp-") as folder:
        stage(str(Path(folder, "staged")), options.events, options.partitions)
        for query in options.queries.split(","):
            for nodes in map(int, options.nodes.split(",")):
                ramp = Ramp(options.start)
                rows.append(climb(folder, query, nodes, options.partitions, ramp, options.step))
                print(json.dumps(rows[-1]), flush=True)
                write(options.out, rows)
    print((options.out / "ramp.md").read_text())


def stage(folder: str, events: int, partitions: int) -> None:
    """Generate all events, on all cores."""
    with open_log(folder) as log:
        log.create_topic(STAGED, partitions)
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        pool.starmap(_stage_one, [(folder, events, partitions, partition) for partition in range(partitions)])


def _stage_one(folder: str, events: int, partitions: int, partition: int) -> None:
    with open_log(folder) as log:
        load_partition(log, Stream(STAGED, events, partitions, GeneratorConfig(seed=7)), partition)


def climb(folder: str, query: str, nodes: int, partitions: int, ramp: Ramp, step_s: float) -> dict[str, Any]:
    """One ramp on a fresh log."""
    with tempfile.TemporaryDirectory(prefix="log-", dir=folder) as place:
        settings = load_settings(definitions=[f"log.path={place}", "log.fsync=none"], environ={})
        with open_job_log(settings) as log:
            log.create_topic(TOPIC, partitions)
            run = open_job(log, nexmark_job(query))
            monitor, fleet = Monitor(log, run), Fleet(f"nexmark.queries:{query}", settings, nodes)
            with fleet:
                wait_for(fleet, lambda: _owned(monitor, nodes, partitions), monitor.poll)
                steps = _steps(Steps(log, monitor, fleet, str(Path(folder, "staged")), place, partitions), ramp, step_s)
                began_s = time.monotonic()
                wait_for(fleet, lambda: monitor.consumed >= _sent(log, partitions), monitor.poll)
    last = steps[-1]
    return {
        "query": query, "nodes": nodes, "partitions": partitions, "events_per_s": round(ramp.best),
        "stopped_growing": ramp.over, "producer_kept_up": last["sent_per_s"] > 0.9 * last["rate"],
        "drained_s": round(time.monotonic() - began_s, 2), "steps": steps,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def _sent(log: Log, partitions: int) -> int:
    return sum(log.end_offset(TOPIC, part) for part in range(partitions))


def _owned(monitor: Monitor, nodes: int, partitions: int) -> bool:
    ownership = monitor.ownership
    return len(ownership.members) >= nodes and all(ownership.owner(part) is not None for part in range(partitions))


@dataclass(slots=True)
class Steps:
    """What a step needs: the log, those who watch it, where the events are, and how many have been sent."""

    log: Log
    monitor: Monitor
    fleet: Fleet
    staged: str
    place: str
    partitions: int
    sent: int = 0

    def run(self, rate: float, seconds: float) -> dict[str, Any] | None:
        """One step; None if there are not events enough."""
        with open_log(self.staged) as staged:
            there = sum(staged.end_offset(STAGED, part) for part in range(self.partitions))
        events = int(rate * seconds)
        if self.sent + events > there:
            return None
        ours = [member.process.pid for member in self.fleet.running()]
        producer = self._producer(events, rate)
        used_s, machine_s = _used_s(ours), busy_s()
        began_s, before = time.monotonic(), self._consumed()
        while time.monotonic() - began_s < seconds:
            time.sleep(0.05)
            self.fleet.check()
        passed_s, taken = time.monotonic() - began_s, self._consumed() - before
        sent = _sent(self.log, self.partitions) - self.sent
        cores, busy = (_used_s(ours) - used_s) / passed_s, (busy_s() - machine_s) / passed_s
        producer.join()
        if producer.exitcode != 0:
            raise SystemExit(f"the producer has failed (exit code {producer.exitcode}); see the messages above")
        self.sent += events
        return {
            "rate": round(rate), "sent_per_s": round(sent / passed_s), "events_per_s": round(taken / passed_s),
            "behind": max(0, self.sent - self._consumed()), "node_cores": round(cores, 2), "all_cores": round(busy, 2),
        }  # fmt: skip

    def _producer(self, events: int, rate: float) -> BaseProcess:
        context = multiprocessing.get_context("spawn")
        ready = context.Event()
        process = context.Process(
            target=produce, args=(self.staged, self.place, self.partitions, self.sent, events, rate, ready)
        )
        process.start()
        ready.wait(START_S)
        return process

    def _consumed(self) -> int:
        self.monitor.poll()
        return self.monitor.consumed


def _steps(steps: Steps, ramp: Ramp, step_s: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while not ramp.over:
        row = steps.run(ramp.rate, step_s)
        if row is None:
            break
        rows.append(row)
        ramp.told(row["events_per_s"])
    if not rows:
        raise SystemExit("not events enough for the first step: use a larger --events")
    return rows


def produce(staged: str, place: str, partitions: int, first: int, events: int, rate: float, ready: Any) -> None:
    """Copy events ``first`` to ``first + events`` at ``rate`` a second; all partitions advance alike."""
    with open_log(staged) as source, open_log(place) as log:
        ready.set()
        began_s, sent = time.monotonic(), first
        while sent < first + events:
            due = min(first + events, first + int((time.monotonic() - began_s) * rate) + 1)
            for partition in range(partitions):
                start, stop = _record(sent, partition, partitions), _record(due, partition, partitions)
                while start < stop:
                    chunk = source.read(STAGED, partition, start, max_records=stop - start)
                    log.append(TOPIC, partition, chunk.values)
                    start = chunk.next_offset
            sent = due
            time.sleep(max(0.0, TICK_S - (time.monotonic() - began_s) % TICK_S))


def _record(event: int, partition: int, partitions: int) -> int:
    """How many of the events before ``event`` are in the partition."""
    return len(range(partition, event, partitions))


def _used_s(pids: Sequence[int]) -> float:
    return sum(cpu_s(pid) or 0.0 for pid in pids)


def write(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """JSON, table and picture."""
    found = {"rows": rows, "paper": PAPER, "machine": machine()}
    write_files(folder, "ramp", found, markdown(rows), lambda path: plot(rows, path))


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/performance.md."""
    lines = [
        "| query | nodes | events/s at most | stopped growing | producer kept up | cores of the nodes then | load |",
        "|" + "---|" * 7,
    ]
    for row in rows:
        best = max(row["steps"], key=lambda step: step["events_per_s"])
        said = ["yes" if row[name] else "no" for name in ("stopped_growing", "producer_kept_up")]
        lines.append(
            f"| {row['query']} | {row['nodes']} | {row['events_per_s']:,} | {said[0]} | {said[1]} | "
            f"{best['node_cores']} | {row['load']} |"
        )
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Throughput over the rate that was offered."""
    with picture(path, 1, 1, (7, 5)) as (_, (axis,)):
        for row in rows:
            label = f"{row['query']}, {row['nodes']} nodes"
            axis.plot([s["rate"] for s in row["steps"]], [s["events_per_s"] for s in row["steps"]], "o-", label=label)
        axis.set(xscale="log", yscale="log", xlabel="events a second offered", ylabel="events a second processed")
        axis.grid(alpha=0.3)
        axis.legend()


if __name__ == "__main__":
    main()
