"""Copies ahead of a move without other load: MB/s, CPU a MB, size and round trip of batches, memory of nodes.

    .venv/bin/python deploy/bench/transactions/copying.py [--records 200000] [--partitions 16,12] [--nodes 2]
        [--spread all|least] [--rounds 3] [--bootstrap HOST:PORT] [--also DIR] [--json]

YCSB-M begins with checkpoints, has no requests, and goes from the first number of partitions to the second. Copying is
from the record of the first plan to that of the last layout, by the log's own time, with all portions of the move. CPU
is that of all nodes meanwhile, less what they spend when idle. Extra memory is the highest of any node over the first:
resident bytes, and those of them that are in no file, since an embedded log is in mapped files. ``--also``: another
checkout of this repository, measured in turn with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import psutil

from deploy.bench.transactions.state_nodes import SEQUENCERS, log_for_run
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.log import Log
from nodes.transactions.bench.first_checkpoints import begin_with
from nodes.transactions.bench.fleet import BenchFleet, bench_fleet
from nodes.transactions.bench.run import send_and_wait
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import TransactionTopics, create_topics
from transactional.epochs.layout_messages import Copied, CopyArrived, NewLayout, PlannedLayout
from transactional.epochs.messages import epoch_messages
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.partitioned import with_partitions

WAIT_S = 120.0
IDLE_S = 3.0
SAMPLE_S = 0.02
HERE = Path(__file__).parents[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--partitions", default="16,12")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--spread", choices=("all", "least"), default="all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bootstrap", help="a Kafka broker, HOST:PORT; else the log is an embedded one")
    parser.add_argument("--also", type=Path, help="another checkout, in turn with this one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--once", action="store_true", help="one run in this process, as JSON: for --also")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measured(options)))
        return
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for checkout in [options.also, HERE] if options.also else [HERE]:
            found.setdefault(str(checkout), []).append(measured_by(checkout.resolve(), sys.argv[1:]))
            print(checkout.name, found[str(checkout)][-1], flush=True)
    medians = {
        name: {each: round(median(run[each] for run in runs), 2) for each in runs[0]} for name, runs in found.items()
    }
    if options.json:
        print(json.dumps(medians))
        return
    for name, figures in medians.items():
        print(Path(name).name, figures)


def measured_by(checkout: Path, arguments: Sequence[str]) -> dict[str, float]:
    """One run by the code of this checkout. Raises ``CalledProcessError``."""
    command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--once"]
    paths = os.pathsep.join([str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = dict(os.environ, PYTHONPATH=paths)
    done = subprocess.run(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measured(options: argparse.Namespace) -> dict[str, float]:
    """One run, on a log of its own."""
    first, second = map(int, options.partitions.split(","))
    workload = with_partitions(WORKLOADS["ycsb-m"], first)
    shape, state = WorkloadShape(options.records), workload.first_state
    assert state is not None
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, log_for_run(folder, options.bootstrap) as (log, place):
        url = f"{folder}/checkpoints"
        begin_with(log, ObjectCheckpoints(url), workload.program, SEQUENCERS, state.keys(shape), state.value)
        topics = create_topics(log, workload.program, SEQUENCERS)
        settings = [part for each in (*place, f"checkpoints.url={url}") for part in ("-D", each)]
        with bench_fleet(workload.reference, SEQUENCERS, settings, options.nodes, WAIT_S) as fleet:
            wait_until_settled(log, topics, (SEQUENCERS, first), options.nodes, WAIT_S)
            send_and_wait(TransactionClient(log, workload.program.name), workload.requests(shape, 0, 200))
            figures = migrated(log, topics, fleet, second, options.spread)
    return {"load": load, **figures}


def migrated(log: Log, topics: TransactionTopics, fleet: BenchFleet, to: int, spread: Any) -> dict[str, float]:
    """Request the layout, wait until it holds, and read what the log says."""
    before_s = fleet.cpu_s()
    time.sleep(IDLE_S)
    idle = (fleet.cpu_s() - before_s) / IDLE_S
    requests = Repartitioning(log, topics)
    with highest_memory(fleet) as (memory, private):
        began_s, cpu_s = time.monotonic(), fleet.cpu_s()
        made, told = requests.request(("record",), to, spread, "online")
        told = requests.wait(made, told, WAIT_S)
        took_s = time.monotonic() - began_s
        cpu_s = fleet.cpu_s() - cpu_s - idle * took_s
    copies, planned_ms, held_ms, portions, trips = copies_of(log, topics)
    sizes = [each.size_bytes for each in copies if each.size_bytes]
    megabytes, copy_s = sum(sizes) / 1e6, (held_ms - planned_ms) / 1000
    return {
        "MB": megabytes,
        "copying_s": copy_s,
        "MB_per_s": megabytes / copy_s,
        "portions": portions,
        "took_s": took_s,
        "cpu_ms_per_MB": 1000 * cpu_s / megabytes,
        "batches": len(sizes),
        "largest_batch_kB": max(sizes) / 1000,
        "median_batch_kB": median(sizes) / 1000,
        "round_trip_ms": median(trips),
        "stopped_ms": told.downtime_ms or 0,
        "extra_memory_MB": max(memory) / 1e6,
        "extra_private_MB": max(private) / 1e6,
    }


def copies_of(log: Log, topics: TransactionTopics) -> tuple[list[Copied], int, int, int, list[float]]:
    """Batches in their order; when the first plan and the last layout were appended, and how many; round trips, ms.

    A round trip is from a batch to its last arrival.
    """
    copies: list[Copied] = []
    planned_ms = held_ms = 0
    layouts = set[int]()
    sent: dict[int, int] = {}
    arrived: dict[tuple[int, int, int], int] = {}
    offset, end = log.start_offset(topics.epochs, 0), log.end_offset(topics.epochs, 0)
    while offset < end:
        chunk = log.read(topics.epochs, 0, offset)
        for value, at_ms in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
            for message in epoch_messages(value):
                match message:
                    case PlannedLayout():
                        planned_ms = planned_ms or at_ms
                    case NewLayout(layout) if layout.number not in layouts:  # else it is void
                        held_ms = at_ms
                        layouts.add(layout.number)
                    case Copied():
                        copies.append(message)
                        sent[message.partition] = at_ms
                    case CopyArrived() if message.source in sent:
                        arrived[message.layout, message.source, sent[message.source]] = at_ms
                    case _:
                        pass
        offset = max(chunk.next_offset, offset + 1)
    return copies, planned_ms, held_ms, len(layouts), [at_ms - sent_ms for (*_, sent_ms), at_ms in arrived.items()]


@contextmanager
def highest_memory(fleet: BenchFleet) -> Iterator[tuple[list[int], list[int]]]:
    """Of each node: the most resident bytes while this lasts, less those at its beginning; and without files."""
    processes = [psutil.Process(each.pid) for each in fleet.processes.values()]
    before = [each.memory_info() for each in processes]
    most, private, over = [0] * len(processes), [0] * len(processes), Event()

    def sample() -> None:
        while not over.wait(SAMPLE_S):
            for number, (process, at_first) in enumerate(zip(processes, before, strict=True)):
                now = process.memory_info()
                more, more_shared = now.rss - at_first.rss, now.shared - at_first.shared
                most[number] = max(most[number], more)
                private[number] = max(private[number], more - more_shared)

    thread = Thread(target=sample, name="memory")
    thread.start()
    try:
        yield most, private
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
