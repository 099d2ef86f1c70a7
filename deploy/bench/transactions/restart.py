"""Transactions after all nodes were killed: time to the first reply, and what the nodes read until then.

    .venv/bin/python deploy/bench/transactions/restart.py [--transactions 20000,100000,300000] [--nodes 2] [--backlog 0]
        [--kafka-bootstrap HOST:PORT] [--out DIR]

For each count, on a log of its own: so many transfers, then kill -9 of all nodes at once, then new ones. ``backlog``
requests are sent while no node lives. The number of records that a node reads should depend on the interval of
checkpoints, and not on how many transactions there ever were. Times are of this machine as it is, with what else runs
on it; counts of records and seconds of CPU show more. Writes txn_restart.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.bench.transactions.state_nodes import log_for_run
from nexmark.bench.machine import machine
from nexmark.pictures import write_files
from nodes.log import Log
from nodes.transactions.bench.run import send_and_wait
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import TransactionTopics, create_topics
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.ycsb_t import workload

SEQUENCERS = 4
ACCOUNTS = 10_000
BURST = 2_000
LIMIT_S = 600.0
NODE = "deploy.bench.transactions.restart_node"
KINDS = ("control", "heartbeats", "epochs", "requests", "calls", "commits", "replies")


@dataclass(slots=True)
class Nodes:
    """Node processes, and what each reports when it has replied for the first time."""

    settings: Sequence[str]
    count: int
    folder: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        options = [part for option in self.settings for part in ("-D", option)]
        for number in range(self.count):
            command = [sys.executable, "-m", NODE, str(number), str(SEQUENCERS), self._report_path(number), *options]
            self.processes.append(subprocess.Popen(command))

    def report(self) -> list[dict[str, Any]]:
        """Of those that have reported in this incarnation."""
        found = [Path(self._report_path(number)) for number in range(self.count)]
        return [json.loads(path.read_text()) for path in found if path.exists()]

    def end(self, signum: signal.Signals) -> None:
        for process in self.processes:
            process.send_signal(signum)
        for process in self.processes:
            process.wait()
        self.processes.clear()

    def _report_path(self, number: int) -> str:
        return f"{self.folder}/report-{self.starts}-{number}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", default="20000,100000,300000")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--backlog", type=int, default=0)
    parser.add_argument("--single", action="store_true", help="a record for each request; else up to 200 in one")
    parser.add_argument("--no-trim", action="store_true", help="nothing of the job's topics is deleted")
    parser.add_argument("--kafka-bootstrap", help="else the log is an embedded one")
    parser.add_argument("--out", type=Path, default=Path("runs/txn-restart"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for count in map(int, options.transactions.split(",")):
        rows.append(measured(count, options))
        print(json.dumps(rows[-1]), flush=True)
    text = table(rows)
    write_files(options.out, "txn_restart", {"rows": rows, "machine": machine()}, text)
    print(text)


def measured(transactions: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    count, backlog = options.nodes, options.backlog
    with tempfile.TemporaryDirectory() as folder, log_for_run(folder, options.kafka_bootstrap) as (log, place):
        topics = create_topics(log, workload.program, SEQUENCERS)
        client = TransactionClient(log, workload.program.name)
        trim = f"node.truncate_internal_topics={str(not options.no_trim).lower()}"
        nodes = Nodes([*place, f"checkpoints.url={folder}/checkpoints", trim], count, folder)
        nodes.start()
        try:
            wait_until_settled(log, topics, (SEQUENCERS, workload.program.partitions), count, LIMIT_S)
            shape, began_s = WorkloadShape(ACCOUNTS, 0.5), time.monotonic()
            send_and_wait(client, workload.load(shape))
            for first in range(0, transactions, BURST):
                burst = workload.requests(shape, first, min(BURST, transactions - first))
                send_each(client, burst) if options.single else send_and_wait(client, burst)
            ran_s = time.monotonic() - began_s
            nodes.end(signal.SIGKILL)
            return {
                "transactions": transactions, "backlog": backlog, "nodes": count, "ran_s": round(ran_s, 1),
                "load": round(os.getloadavg()[0], 1), "on_log": on_log(log, topics),
                **restarted(nodes, client, shape, transactions, backlog),
            }  # fmt: skip
        finally:
            nodes.end(signal.SIGTERM)


def send_each(client: TransactionClient, requests: Sequence[WireRequest]) -> None:
    """A record for each of them."""
    for request in requests:
        client.send_request(request)
    waits = {request.id for request in requests}
    while waits:
        client.receive(0.5)
        waits.difference_update(name for name, _ in client.take_all())


def restarted(
    nodes: Nodes, client: TransactionClient, shape: WorkloadShape, first: int, backlog: int
) -> dict[str, Any]:
    """From the start of the new nodes to the first reply."""
    requests = workload.requests(shape, first, backlog + 1)
    began_s = time.monotonic()
    nodes.start()
    client.send_all(requests)
    while not client.receive(0.5):
        assert time.monotonic() < began_s + LIMIT_S, f"no reply in {LIMIT_S:g} s"
    first_s = time.monotonic() - began_s
    while len(client._waiting) > len(client._replies):  # type: ignore[arg-type]
        client.receive(0.5)
        assert time.monotonic() < began_s + LIMIT_S, f"not all replies in {LIMIT_S:g} s"
    all_s = time.monotonic() - began_s
    report = nodes.report()
    read = {kind: sum(each["read"].get(kind, [0, 0])[0] for each in report) for kind in KINDS}
    read_kb = {kind: round(sum(each["read"].get(kind, [0, 0])[1] for each in report) / 1e3) for kind in KINDS}
    times = {name: max(each[name] for each in report) for name in ("first_reply_s", "begin_cpu_s", "cpu_s", "peak_mb")}
    return {"to_first_reply_s": round(first_s, 2), "to_all_replies_s": round(all_s, 2), "slowest_node": times,
            "read_records": read, "read_kb": read_kb}  # fmt: skip


def on_log(log: Log, topics: TransactionTopics) -> dict[str, int]:
    """Records of each topic that are kept."""
    names = {kind: getattr(topics, kind) for kind in KINDS}
    return {
        kind: sum(log.end_offset(name, p) - log.start_offset(name, p) for p in range(log.partitions(name)))
        for kind, name in names.items()
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    head = [
        "transactions",
        "backlog",
        "to first reply, s",
        "CPU of a node until its loop, s",
        "until it replies, s",
        *(f"{kind} read" for kind in KINDS),
    ]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        shown = [row["transactions"], row["backlog"], row["to_first_reply_s"], row["slowest_node"]["begin_cpu_s"]]
        shown.append(row["slowest_node"]["cpu_s"])
        lines.append(f"| {' | '.join(str(each) for each in [*shown, *row['read_records'].values()])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
