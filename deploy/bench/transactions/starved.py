"""Transactional nodes that get a tenth of a CPU each: which partitions move, and what memory the nodes take.

    .venv/bin/python deploy/bench/transactions/starved.py [--seconds 180] [--share 0.1] [--rate 100] [--nodes 2]
        [--out DIR]

Processes are stopped and continued in drawn slices, so that each runs for its share of the time. Requests come at a
rate that may be more than they can do. In the end they run freely until every request is replied to. Prints a line of
JSON every ten seconds. At the end it prints how often each partition has changed its owner, the highest memory of a
node (without the system's cache of files) and how long replies took. Writes txn_starved.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from deploy.bench.transactions.restart import SEQUENCERS, Nodes
from deploy.bench.transactions.state import anonymous_mb
from deploy.bench.transactions.state_nodes import log_for_run
from nexmark.bench.machine import machine
from nexmark.pictures import write_files
from nodes.runtime.control_topic import ControlHistory
from nodes.transactions.bench.run import send_and_wait
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.control_history import control_history
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import create_topics
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.ycsb_t import workload

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNTS = 10_000
LIMIT_S = 600.0
TICK_S = 0.05
SLICE_S = 0.008
"""Pauses stay below the 200 ms after which a stopped writer of the embedded log is killed, from a share of 0.07 on."""
LINE_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--share", type=float, default=0.1, help="of a CPU, for each node")
    parser.add_argument("--rate", type=int, default=100, help="requests a second")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/txn-starved"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = measured(options)
    names = ("asked", "replied while starved", "replied", "p50 s", "p99 s", "most moves", "peak MB", "load")
    text = f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n| {' | '.join(str(found[name]) for name in names)} |\n"
    write_files(options.out, "txn_starved", {**found, "machine": machine()}, text)
    print(text)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    with tempfile.TemporaryDirectory() as folder, log_for_run(folder, None) as (log, place):
        topics = create_topics(log, workload.program, SEQUENCERS)
        client = TransactionClient(log, workload.program.name)
        nodes = Nodes([*place, f"checkpoints.url={folder}/checkpoints"], options.nodes, folder)
        nodes.start()
        try:
            units = (SEQUENCERS, workload.program.partitions)
            wait_until_settled(log, topics, units, options.nodes, LIMIT_S)
            shape = WorkloadShape(ACCOUNTS, 0.5)
            send_and_wait(client, workload.load(shape))
            pids = [process.pid for process in nodes.processes]
            run = StarvedRun(client, shape, control_history(log, topics, sum(units)), nodes)
            with starved(pids, options.share):
                run.send(options.seconds, options.rate)
            while_starved = len(run.took_s)
            run.rest()
        finally:
            nodes.end(signal.SIGTERM)
    took_s = sorted(run.took_s)
    return {
        "nodes": options.nodes, "share": options.share, "asked": run.sent, "replied while starved": while_starved,
        "replied": len(took_s), "p50 s": round(statistics.median(took_s), 2),
        "p99 s": round(took_s[int(0.99 * len(took_s))], 2), "moves": dict(run.moves),
        "most moves": max(run.moves.values(), default=0), "peak MB": round(run.peak_mb),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


class StarvedRun:
    """Requests at a rate, their replies, the owners of partitions and the memory of nodes."""

    def __init__(self, client: TransactionClient, shape: WorkloadShape, fold: ControlHistory, nodes: Nodes) -> None:
        self.sent, self.peak_mb = 0, 0.0
        self.took_s: list[float] = []
        self.moves: Counter[int] = Counter()
        self._client, self._shape, self._fold, self._nodes = client, shape, fold, nodes
        self._sent_at: dict[str, float] = {}
        self._owners = fold.read().owners()
        self._line_s = time.monotonic()

    def send(self, seconds: float, rate: int) -> None:
        """At this rate for so long."""
        began_s = time.monotonic()
        while (now_s := time.monotonic()) < began_s + seconds:
            due = int((now_s - began_s) * rate) - self.sent
            if due > 0:
                requests = workload.requests(self._shape, self.sent, due)
                self._client.send_all(requests)
                self._sent_at |= dict.fromkeys((request.id for request in requests), now_s)
                self.sent += due
            self._poll()

    def rest(self) -> None:
        """Until everything is replied to."""
        end_s = time.monotonic() + LIMIT_S
        while self._sent_at:
            assert time.monotonic() < end_s, f"{len(self._sent_at)} requests have no reply after {LIMIT_S:g} s"
            self._poll()

    def _poll(self) -> None:
        self._client.receive(TICK_S)
        now_s = time.monotonic()
        self.took_s += [now_s - self._sent_at.pop(name) for name, _ in self._client.take_all()]
        owners = self._fold.read().owners()
        self.moves.update(unit for unit, owner in owners.items() if owner != self._owners.get(unit))
        self._owners = owners
        if now_s >= self._line_s:
            self._line_s = now_s + LINE_S
            ended = [process.pid for process in self._nodes.processes if process.poll() is not None]
            assert not ended, f"nodes with the process ids {ended} have ended"
            memory_mb = [round(anonymous_mb(process.pid)) for process in self._nodes.processes]
            self.peak_mb = max(self.peak_mb, *memory_mb)
            row = {"asked": self.sent, "waiting": len(self._sent_at), "moves": sum(self.moves.values())}
            print(json.dumps({**row, "memory_mb": memory_mb}), flush=True)


@contextmanager
def starved(pids: list[int], share: float) -> Iterator[None]:
    """Each runs ``share`` of the time meanwhile, in slices of 4 to 12 ms."""
    over = threading.Event()
    threads = [threading.Thread(target=_slices, args=(pid, share, over)) for pid in pids]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _slices(pid: int, share: float, over: threading.Event) -> None:
    draw = Random(pid)
    with suppress(ProcessLookupError):
        while not over.is_set():
            slice_s = SLICE_S * draw.uniform(0.5, 1.5)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(slice_s * (1 / share - 1))
            os.kill(pid, signal.SIGCONT)
            time.sleep(slice_s)
        os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    main()
