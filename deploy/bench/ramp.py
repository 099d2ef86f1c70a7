"""The rate of input grows exponentially until throughput grows no more: q4 and q7 on 1, 2 and 4 nodes, on Kafka.

    .venv/bin/python deploy/bench/ramp.py [--queries q4,q7] [--nodes 1,2,4] [--events 16000000] [--out runs/ramp]

Holon, section 5.3: the rate begins low and grows by --factor every --step seconds; the throughput is the highest of any
step. Record batches are made once (JSON, one event a record, not compressed) and then only copied, by a thread that
takes a small part of a core. Producer, broker and nodes share the machine's cores. Of each ramp is given what ended it:
``nodes`` (more arrived on the log than they took), ``producer`` (not more arrived than they could take), ``events``
(there were no more). Writes ramp.json, ramp.md and ramp.svg. About 20 s for each query and number of nodes, a minute
before, and 350 bytes an event in the temporary folder, twice: 11 GB, best on a memory disk.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.ready_batches import RECORDS, ReadyProducer, prepare
from nexmark.bench.machine import machine
from nexmark.bench.warmup import warm_broker
from nexmark.pictures import picture, write_files
from nexmark.processor_time import busy_s, cpu_s
from nexmark.queries import TOPIC, nexmark_job
from nodes.api import (
    Fleet,
    Log,
    Monitor,
    Settings,
    drop_topics,
    load_settings,
    log_address,
    open_job,
    open_job_log,
    passing_broker,
    wait_for,
)

PAPER = {"q4": (122_000, 10_400), "q7": (2_050_000, 1_090_000)}
"""Holon, section 5.3: its own and Flink's events a second, 10 nodes, 50 partitions, 50 producers."""
WARM_EVENTS = 1_000_000
MORE = 1.1
"""So many times what the nodes take has to arrive, if it is they who end a ramp."""


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

    def record(self, throughput: float) -> None:
        """The outcome of the step with ``rate``."""
        self._poor = self._poor + 1 if throughput < self.gain * self.best else 0
        self.best = max(self.best, throughput)
        self.rate *= self.factor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default="q4,q7")
    parser.add_argument("--nodes", default="1,2,4")
    parser.add_argument("--events", type=int, default=16_000_000, help="made, and the most that a ramp takes")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--start", type=float, default=200_000.0, help="events a second of the first step")
    parser.add_argument("--factor", type=float, default=1.5, help="by which the rate grows")
    parser.add_argument("--step", type=float, default=1.0, help="seconds")
    parser.add_argument("--broker-warmup", type=float, default=10.0, help="seconds")
    parser.add_argument("--bootstrap", help="HOST:PORT of a broker (default: one is started)")
    parser.add_argument("--out", type=Path, default=Path("runs/ramp"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="holon-ramp-") as name, _broker(Path(name), options.bootstrap) as bootstrap:
        stock = Path(name, "stock")
        stock.mkdir()
        prepare(stock, options.events, options.partitions)
        place = RampEnvironment(stock, bootstrap, options.partitions)
        if options.broker_warmup:
            warm(place, options.broker_warmup)
        for query in options.queries.split(","):
            for nodes in map(int, options.nodes.split(",")):
                rows.append(climb(place, query, nodes, Ramp(options.start, options.factor), options.step))
                print(json.dumps(rows[-1]), flush=True)
                write(options.out, rows)
    print((options.out / "ramp.md").read_text())


@contextmanager
def _broker(folder: Path, bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    # The records of a ramp are deleted with its topic.
    deleting = {"log.segment.delete.delay.ms": "1000"}
    with passing_broker(folder / "kafka", heap_mb=1024, properties=deleting) as broker:
        yield broker.bootstrap


@dataclass(frozen=True, slots=True)
class RampEnvironment:
    """Where ramps run: batches that are ready, a broker, how many partitions."""

    stock: Path
    bootstrap: str
    partitions: int

    @contextmanager
    def topic(self) -> Iterator[tuple[Settings, ReadyProducer]]:
        """Settings of a log of its own with an empty topic, and who fills it; the topics are gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="holon-ramp-checkpoints-") as checkpoints:
            prefix = f"ramp-{secrets.token_hex(4)}."
            more = ["log.kind=kafka", f"log.bootstrap={self.bootstrap}", f"log.prefix={prefix}"]
            settings = load_settings(definitions=[*more, f"checkpoints.url={checkpoints}"], environ={})
            with open_job_log(settings) as log:
                log.create_topic(TOPIC, self.partitions)
                _sent(log, self.partitions)  # each partition's leader has answered
            try:
                producer = ReadyProducer(self.stock, self.bootstrap, prefix + TOPIC, self.partitions)
                try:
                    yield settings, producer
                finally:
                    producer.close()
            finally:
                drop_topics(settings)


def warm(place: RampEnvironment, seconds: float) -> None:
    """Let the broker compile what it does, before the first ramp."""
    with place.topic() as (settings, producer):
        producer.run(WARM_EVENTS / seconds, seconds)
        warm_broker(log_address(settings), place.partitions, seconds)


def climb(place: RampEnvironment, query: str, nodes: int, ramp: Ramp, step_s: float) -> dict[str, Any]:
    """One ramp on topics of its own."""
    partitions = place.partitions
    with place.topic() as (settings, producer), open_job_log(settings) as log:
        run = open_job(log, nexmark_job(query))
        monitor, fleet = Monitor(log, run), Fleet(f"nexmark.queries:{query}", settings, nodes)
        with fleet:
            wait_for(fleet, lambda: _owned(monitor, nodes, partitions), monitor.poll)
            steps = _steps(RampSteps(log, monitor, fleet, producer), ramp, step_s)
            began_s = time.monotonic()
            wait_for(fleet, lambda: monitor.consumed >= _sent(log, partitions), monitor.poll)
    return {
        "query": query, "nodes": nodes, "partitions": partitions, "events_per_s": round(ramp.best),
        "ended_by": ended_by(steps, ramp), "drained_s": round(time.monotonic() - began_s, 2), "steps": steps,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def ended_by(steps: Sequence[dict[str, Any]], ramp: Ramp) -> str:
    """``nodes`` if in each step that brought nothing more arrived than they took, else ``producer``; or ``events``."""
    if not ramp.over:
        return "events"
    last = steps[-ramp.patience :]
    return "nodes" if all(step["sent_per_s"] > MORE * step["events_per_s"] for step in last) else "producer"


def _sent(log: Log, partitions: int) -> int:
    return sum(log.end_offset(TOPIC, part) for part in range(partitions))


def _owned(monitor: Monitor, nodes: int, partitions: int) -> bool:
    ownership = monitor.ownership
    return len(ownership.members) >= nodes and all(ownership.owner(part) is not None for part in range(partitions))


@dataclass(slots=True)
class RampSteps:
    """The parts of a step: the log, its observers, and its producer."""

    log: Log
    monitor: Monitor
    fleet: Fleet
    producer: ReadyProducer

    def run(self, rate: float, seconds: float) -> dict[str, Any] | None:
        """One step; None if there are not events enough."""
        producer = self.producer
        span = RECORDS * producer.partitions
        if (producer.rounds - producer.next_round) * span < rate * seconds:
            return None
        ours = [member.process.pid for member in self.fleet.running()]
        used_s, machine_s = _used_s(ours), busy_s()
        began_s, before = time.monotonic(), self._consumed()
        with ThreadPoolExecutor(1, "ramp-producer") as pool:
            sending = pool.submit(producer.run, rate, seconds)
            while not sending.done() or time.monotonic() - began_s < seconds:
                time.sleep(0.05)
                self.fleet.check()
            sent = sending.result()
        passed_s, taken = time.monotonic() - began_s, self._consumed() - before
        cores, busy = (_used_s(ours) - used_s) / passed_s, (busy_s() - machine_s) / passed_s
        return {
            "rate": round(rate), "sent_per_s": round(sent.rounds * span / passed_s),
            "events_per_s": round(taken / passed_s), "behind": max(0, producer.next_round * span - self._consumed()),
            "node_cores": round(cores, 2), "producer_cores": round(sent.cpu_s / passed_s, 2),
            "all_cores": round(busy, 2),
        }  # fmt: skip

    def _consumed(self) -> int:
        self.monitor.poll()
        return self.monitor.consumed


def _steps(steps: RampSteps, ramp: Ramp, step_s: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while not ramp.over:
        row = steps.run(ramp.rate, step_s)
        if row is None:
            break
        rows.append(row)
        ramp.record(row["events_per_s"])
    if not rows:
        raise SystemExit("not events enough for the first step: use a larger --events")
    return rows


def _used_s(pids: Sequence[int]) -> float:
    return sum(cpu_s(pid) or 0.0 for pid in pids)


def write(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """JSON, table and picture."""
    found = {"rows": rows, "paper": PAPER, "machine": machine()}
    write_files(folder, "ramp", found, markdown(rows), lambda path: plot(rows, path))


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/performance.md."""
    lines = [
        "| query | nodes | events/s at most | ended by | cores of the nodes then | of the producer | load |",
        "|" + "---|" * 7,
    ]
    for row in rows:
        best = max(row["steps"], key=lambda step: step["events_per_s"])
        lines.append(
            f"| {row['query']} | {row['nodes']} | {row['events_per_s']:,} | {row['ended_by']} | "
            f"{best['node_cores']} | {best['producer_cores']} | {row['load']} |"
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
