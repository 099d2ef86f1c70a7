"""Bytes that one node of a simulated fleet reads of a flow with sharded keys, by the number of nodes.

    .venv/bin/python deploy/bench/flows/shard_reads.py [--nodes 10,20,50,100] [--rate 10000] [--json]

Each node gets the same rate of events, and so many new keys. Nodes and drivers are the real ones, with a replica each,
on one log in memory, in virtual time. Bytes that a node polls are counted by topic: contributions (the topic of
shards, its own partitions), watermarks (the broadcast of all partitions), and control. They are those of values, for
a second of virtual time, of the steady input behind ``--warmup``. Results are compared with the input. ``--json``: one
line for each number of nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from holon.arrow import Arrow, write_atom
from holon.dataflow import Flow, Tumbling
from holon.job import Job
from nodes.log.contract import FetchedRecords
from nodes.log.memory import MemoryLog
from nodes.machine.config import NodeConfig
from nodes.machine.node import Node
from nodes.settings.settings import NodeSettings
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import Driver
from nodes.streams.jobs import JobTopics, declare_end, open_job

TURN_MS = 50
START_MS = 3_000
"""All have joined and claimed by then."""
END_MS = 600_000


class Row(msgspec.Struct):
    """An event."""

    key: int
    amount: int
    at: int


class Total(msgspec.Struct):
    """Of a key, in a window."""

    key: int
    count: int
    sum: int


def job() -> Job:
    """Count and sum by key, in windows of a second."""
    flow = Flow("reads")
    rows = flow.source("in", Arrow(Row), time=lambda row: row.at).key_by(lambda row: row.key, sharded=True)
    totals = rows.window(Tumbling("1s")).agg(lambda g: Total(g.key, g.count(), g.sum(lambda row: row.amount)))
    totals.sink("out")
    return flow.job


class ReadLog:
    """The log as one node polls it. ``bytes`` and ``records``: of what was polled, by topic."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.bytes: Counter[str] = Counter()
        self.records: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def poll(self, topic: str, partition: int, offset: int, **given: Any) -> FetchedRecords:
        """As ``Log.poll``."""
        chunk = self._log.poll(topic, partition, offset, **given)
        self.bytes[topic] += sum(map(len, chunk.values))
        self.records[topic] += len(chunk)
        return chunk


class Fleet:
    """One run. ``fed``: the number of events, and the sum of their amounts."""

    def __init__(self, options: argparse.Namespace, nodes: int) -> None:
        self.options, self.nodes, self.now_ms = options, nodes, 0
        self.log = MemoryLog(clock_ms=lambda: self.now_ms)
        self.partitions = nodes * options.partitions_per_node
        self.log.create_topic("in", self.partitions)
        self.run = open_job(self.log, job())
        assert self.run.apart, "the flow has no sharded state"
        self.topics = JobTopics.of(self.run)
        self.draw = np.random.default_rng(options.seed)
        self.fed = [0, 0]
        store = MemoryCheckpoints()
        self.logs = [ReadLog(self.log) for _ in range(nodes)]
        self.drivers = [
            Driver(Node(self._config(number), self.run), log, store, lambda: self.now_ms)  # type: ignore[arg-type]
            for number, log in enumerate(self.logs)
        ]

    def _config(self, number: int) -> NodeConfig:
        """The settings that nodes have by default; without standbys, which read as much as their owners."""
        node = NodeSettings()
        return NodeConfig(
            f"node-{number}",
            number,
            heartbeat_interval_ms=node.heartbeat_interval_ms,
            failure_timeout_ms=2000,
            broadcast_interval_ms=node.broadcast_interval_ms,
            checkpoint_interval_ms=node.checkpoint_interval_ms,
            broadcast_max_per_s=node.broadcast_max_per_s if self.options.max_per_s is None else self.options.max_per_s,
            expected=self.nodes,
            expect_ms=10_000,
        )

    def until(self, ms: int) -> None:
        """Each node turns once in ``TURN_MS`` of virtual time, and each partition gets its next record batch."""
        while self.now_ms < ms:
            self.now_ms += TURN_MS
            for driver in self.drivers:
                if driver.node.left is None:
                    driver.turn(self.log.wait(driver.waits_for(), 0.0))

    def feed(self, ms: int) -> None:
        """A steady input for so long: event time is the log's."""
        tick_ms, until_ms = self.options.tick, self.now_ms + ms
        count = self.options.rate * tick_ms // 1000 // self.options.partitions_per_node
        names = np.random.default_rng(self.options.seed).integers(-(2**62), 2**62, self.options.keys * self.nodes)
        while self.now_ms < until_ms:
            for partition in range(self.partitions):
                amounts = self.draw.integers(0, 1000, count)
                at = np.full(count, self.now_ms)
                columns = {"key": self.draw.choice(names, count), "amount": amounts, "at": at}
                batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
                self.log.append("in", partition, [write_atom(batch)])
                self.fed[0] += count
                self.fed[1] += int(amounts.sum())
            self.until(self.now_ms + tick_ms)

    def read(self, what: str) -> dict[str, np.ndarray]:
        """By kind of topic, how much each node has polled so far."""
        topics = self.topics
        kinds = {"contributions": topics.shards, "watermarks": topics.broadcast, "control": topics.control}
        return {kind: np.array([getattr(log, what)[topic] for log in self.logs]) for kind, topic in kinds.items()}

    def results(self) -> list[int]:
        """The number of events in all windows, and the sum of their amounts."""
        found = [0, 0]
        for partition in range(self.log.partitions("out")):
            values = self.log.read("out", partition, 0, max_records=1 << 30).values
            rows = [msgspec.json.decode(value, type=Total) for value in values]
            found = [found[0] + sum(row.count for row in rows), found[1] + sum(row.sum for row in rows)]
        return found


def measured(options: argparse.Namespace, nodes: int) -> dict[str, Any]:
    """One run."""
    began_s = time.process_time()
    fleet = Fleet(options, nodes)
    fleet.until(options.start)
    owned = [len(driver.node.work.owned()) for driver in fleet.drivers]
    assert owned == [options.partitions_per_node] * nodes, f"partitions of each node: {owned}"
    fleet.feed(int(options.warmup * 1000))
    before, records = fleet.read("bytes"), fleet.read("records")
    fleet.feed(int(options.seconds * 1000))
    read = {kind: after - before[kind] for kind, after in fleet.read("bytes").items()}
    count = {kind: after - records[kind] for kind, after in fleet.read("records").items()}
    declare_end(fleet.log, fleet.run)
    while any(driver.node.left is None for driver in fleet.drivers):
        assert fleet.now_ms < END_MS, "nodes have not left"
        fleet.until(fleet.now_ms + TURN_MS)
    assert fleet.results() == fleet.fed, f"{fleet.results()} came out, {fleet.fed} was to"
    rates = {kind: found / options.seconds / 1000 for kind, found in read.items()}
    return {
        "nodes": nodes, "partitions": fleet.partitions, "events_per_s": options.rate * nodes, "events": fleet.fed[0],
        **{f"{kind}_kb_per_s": round(float(found.mean()), 1) for kind, found in rates.items()},
        **{f"{kind}_kb_per_s_most": round(float(found.max()), 1) for kind, found in rates.items()},
        **{f"{kind}_records_per_s": round(float(found.mean()) / options.seconds) for kind, found in count.items()},
        "bytes_per_contribution": round(float(read["contributions"].sum() / max(1, count["contributions"].sum()))),
        "took_cpu_s": round(time.process_time() - began_s, 1), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10,20,50,100")
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of each node")
    parser.add_argument("--keys", type=int, default=10_000, help="different int64 keys for each node that there is")
    parser.add_argument("--partitions-per-node", type=int, default=1)
    parser.add_argument("--max-per-s", type=int, default=None, help="node.broadcast_max_per_s (default: as nodes)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of virtual time that count")
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--start", type=int, default=START_MS, help="ms of virtual time at which input begins")
    parser.add_argument("--tick", type=int, default=100, help="ms between record batches of a partition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    first: dict[str, Any] = {}
    for nodes in map(int, options.nodes.split(",")):
        found = measured(options, nodes)
        first = first or found
        shares = {
            kind: round(found[f"{kind}_kb_per_s"] / max(first[f"{kind}_kb_per_s"], 0.1), 2)
            for kind in ("contributions", "watermarks")
        }
        print(json.dumps(found) if options.json else f"{found} of the first run's: {shares}", flush=True)


if __name__ == "__main__":
    main()
