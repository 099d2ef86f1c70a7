"""Count and sum of many int64 keys in one window: memory, bytes read and CPU of a node, by the number of nodes.

    .venv/bin/python deploy/bench/keys.py [--keys 200000] [--events 1000000] [--nodes 1,2,4,8] [--zipf 1.5] [--whole]
    .venv/bin/python deploy/bench/keys.py --windows sessions|counts
    .venv/bin/python deploy/bench/keys.py --nodes 2,4 --kill --each

The state is sharded, or with ``--whole`` held by all nodes. ``--windows`` takes a flow with windows of slices of 100 ms
in its place: a session of each key, or a window by count that its timeout closes. ``--each``: each key comes once, then
any of them. ``--kill``: the end of the input waits until all is processed and in checkpoints. Each fleet runs twice,
and the second time its first node is killed at that moment. Input is Arrow, ``--rows`` events a record, on the embedded
log. Each node's memory is its own at the highest, above that of a node that has no input yet. It reads all of the
broadcast, and of the topic of shards the partitions that it owns. Answers are compared with the input. ``--json``: one
line for each number of nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from holon import WCRDT, Batch, Context, Job, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.arrow import Arrow, ArrowColumns, write_atom
from holon.dataflow import Count, Flow, Session
from nodes.api import EmbeddedLog, Fleet, Monitor, OutputReader, declare_end, load_job, load_settings, open_job
from wcrdt import ColumnsOf, GCounter, RecordOf, Sum

TICKS = os.sysconf("SC_CLK_TCK")
DAY_MS = 86_400_000
IDLE_S = 2.0


class Row(msgspec.Struct):
    """An event."""

    key: int
    amount: int
    at: int


class Total(msgspec.Struct):
    """The counts and sums of so many keys."""

    keys: int
    count: int
    sum: int


WINDOWS: dict[str, Any] = {
    "day": None,
    "sessions": Session("10s", slice="100ms"),
    "counts": Count(1_000_000, timeout="10s", slice="100ms"),
}


def job(sharded: int = 1, windows: int = 0) -> Job:
    """As ``deploy.bench.keys:job?sharded=0&windows=1``; ``windows`` is a place in ``WINDOWS``."""
    if windows:
        flow = Flow("keys")
        rows = flow.source("in", Arrow(Row), time=lambda row: row.at).key_by(lambda row: row.key, sharded=bool(sharded))
        totals = rows.window([*WINDOWS.values()][windows]).agg(
            lambda g: Total(1, g.count(), g.sum(lambda row: row.amount))
        )
        totals.sink("out")
        return flow.job

    class Keys(ProcessingFunction[Any]):
        keys = WCRDT(ColumnsOf(RecordOf(count=GCounter(), sum=Sum())), Tumbling(DAY_MS), sharded=bool(sharded))

        def process_batch(self, batch: Batch[Any], ctx: Context) -> None:
            amounts = batch["amount"]
            self.keys.insert_many((batch["key"], (np.ones(len(amounts), np.int64), amounts)), batch.ts_ms)

        @on_window(keys, scope="partition" if sharded else "global")
        async def report(self, window: Window, ctx: Context) -> None:
            keys, values = (await self.keys.window_value(window)).columns()
            ctx.emit({"keys": len(keys), "count": int(values["count"].sum()), "sum": int(values["sum"].sum())})

    source = Source("in", ArrowColumns({"key": int, "amount": int, "at": int}), timestamp="at")
    return Job("keys", source, Keys, output="out")


def drawn(options: argparse.Namespace) -> Iterator[tuple[pa.RecordBatch, Any, Any]]:
    """Record batches with the numbers of their keys, and their amounts."""
    draw = np.random.default_rng(options.seed)
    names = draw.integers(-(2**62), 2**62, options.keys)
    for first in range(0, options.events, options.rows):
        count = min(options.rows, options.events - first)
        if options.each and first + count <= options.keys:
            ranks = np.arange(first, first + count)
        elif options.zipf:
            ranks = draw.zipf(options.zipf, count) % options.keys
        else:
            ranks = draw.integers(0, options.keys, count)
        keys, amounts = names[ranks], draw.integers(0, 1000, count)
        at = 20_000 * DAY_MS + np.arange(first, first + count) // 1000
        yield pa.record_batch({"key": pa.array(keys), "amount": pa.array(amounts), "at": pa.array(at)}), ranks, amounts


def feed(log: EmbeddedLog, options: argparse.Namespace) -> dict[str, int]:
    """Write the input; returns what is to come out."""
    seen = np.zeros(options.keys, np.bool_)
    total = 0
    for number, (batch, ranks, amounts) in enumerate(drawn(options)):
        log.append("in", number % options.partitions, [write_atom(batch)])
        seen[ranks] = True
        total += int(amounts.sum())
    return {"keys": int(seen.sum()), "count": options.events, "sum": total}


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def topic_bytes(log: EmbeddedLog, topic: str, partition: int) -> int:
    """Of all its records."""
    size, offset = 0, 0
    while True:
        chunk = log.read(topic, partition, offset, max_records=1000)
        if not len(chunk):
            return size
        size, offset = size + sum(map(len, chunk.values)), chunk.next_offset


def settle(monitor: Monitor, fleet: Fleet, records: int) -> None:
    """Wait until checkpoints have all records of the input."""
    while sum(monitor.taken()) < records:
        fleet.measure()
        fleet.check()
        time.sleep(0.05)
        monitor.poll()


def measured(options: argparse.Namespace, nodes: int, *, killed: bool = False) -> dict[str, Any]:
    """One run; ``killed``: without its first node at the end of the input."""
    reference = f"deploy.bench.keys:job?sharded={0 if options.whole else 1}&windows={[*WINDOWS].index(options.windows)}"
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        path = Path(folder) / "log"
        wanted = (f"log.path={path}", "node.truncate_internal_topics=false", *options.define)
        settings = load_settings(definitions=wanted, environ={}, directory=Path(folder))
        log = EmbeddedLog(path)
        log.create_topic("in", options.partitions)
        run = open_job(log, load_job(reference))
        monitor = Monitor(log, run)
        root = str(Path(__file__).parents[2])
        cpu: dict[int, float] = {}
        with Fleet(reference, settings, nodes, environment={"PYTHONPATH": root}) as fleet:
            while len([owner for owner in monitor.ownership.owners().values() if owner]) < options.partitions:
                monitor.poll()
                time.sleep(0.05)
            time.sleep(IDLE_S)
            fleet.measure()
            idle = {member.number: member.bytes_now for member in fleet.members}
            before = {member.number: cpu_s(member.process.pid) for member in fleet.members}
            awaited = feed(log, options)
            owners = dict(monitor.ownership.owners())
            members = dict(monitor.ownership.members)
            if options.kill:
                settle(monitor, fleet, -(-options.events // options.rows))
            began = time.monotonic()
            declare_end(log, run)
            if killed:
                fleet.members[0].process.kill()
            while not monitor.done:
                monitor.poll()
                fleet.measure()
                if not killed:
                    fleet.check()
                cpu |= {each.number: cpu_s(each.process.pid) for each in fleet.running()}
                time.sleep(0.1)
            took_s = time.monotonic() - began
        rows = [each.value for each in OutputReader(log, "out", decode=json.loads).read_available()]
        found = {name: sum(row[name] for row in rows) for name in awaited}
        assert found == awaited, f"{found} came out, {awaited} was to"
        broadcast = sum(topic_bytes(log, run.job.broadcast_topic(0), p) for p in range(options.partitions))
        shards = run.job.shards_topic(0)
        contributions = [topic_bytes(log, shards, p) for p in range(options.partitions)] if run.apart else []
        read = dict.fromkeys(range(nodes), broadcast)
        for partition, owner in owners.items():
            if owner is not None and contributions:
                read[members[owner]] += contributions[partition]
        log.close()
    used = sum(cpu.values()) - sum(before.values())
    above = [member.peak_bytes - idle[member.number] for member in fleet.members]
    return {
        "nodes": nodes, "keys": awaited["keys"], "events": options.events, "seconds": round(took_s, 1),
        "memory_mb": round(max(above) / 1e6, 1), "read_mb": round(max(read.values()) / 1e6, 2),
        "events_per_cpu_s": round(options.events / used), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--nodes", default="1,2,4")
    parser.add_argument("--zipf", type=float, default=0.0, help="exponent of the keys' distribution; 0: all alike")
    parser.add_argument("--windows", choices=WINDOWS, default="day", help="of one day, or those of a flow")
    parser.add_argument("--each", action="store_true", help="each key comes at least once")
    parser.add_argument("--kill", action="store_true", help="how long a kill at the end of the input delays results")
    parser.add_argument("--whole", action="store_true", help="not sharded: all nodes hold all keys")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default=None, help="where the log is written")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    first: dict[str, Any] = {}
    for nodes in map(int, options.nodes.split(",")):
        found = measured(options, nodes)
        if options.kill and nodes > 1:
            without = measured(options, nodes, killed=True)
            found |= {"killed_s": without["seconds"], "delay_s": round(without["seconds"] - found["seconds"], 1)}
        first = first or found
        shares = {name: round(found[name] / max(first[name], 0.01), 2) for name in ("memory_mb", "read_mb")}
        print(json.dumps(found) if options.json else f"{found} of the first run's: {shares}", flush=True)


if __name__ == "__main__":
    main()
