"""Splits where some calls cost fifty times as much as others: by heat, which counts calls and bytes, and by CPU.

    .venv/bin/python deploy/bench/transactions/costly.py [--seconds 20] [--rate 900] [--turns 40000] [--json]

Four partitions on two nodes, and an embedded log. In partition 0 four keys have costly calls, and it has the fewest
calls of all. The others have cheap ones alone. The partition with the most work is split to the one with the least, as
the autoscaler does, once by heat alone and once with the CPU of partitions. Shown are the partition that was split, the
costly keys that moved, and each partition's share of CPU before and after. Half of the costly keys should move.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodes.log import Log, open_log
from nodes.transactions.bench.fleet import bench_fleet
from nodes.transactions.bench.run import send_and_wait
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.layouts.splitting import measured, request_split, wait_for_split
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import create_topics
from transactional.context import Context
from transactional.layout import Group
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest

PARTITIONS, NODES, SEQUENCERS = 4, 2, 2
COSTLY, CHEAP = 4, 40
"""Keys: costly ones of partition 0, cheap ones of each partition."""
WAIT_S = 60.0
work = Operator("work", partitions=PARTITIONS)


@work.register
async def step(ctx: Context, turns: int) -> int:
    """Count, after so many turns of a loop."""
    total = 0
    for number in range(turns):
        total += number & 3
    ctx.put(count := ctx.get(0) + 1)
    return count


program = Program("costly", [work])


def keys_of(partition: int, count: int) -> list[str]:
    """In buckets of their own."""
    found: dict[int, str] = {}
    group, number = Group.of(work), 0
    while len(found) < count:
        key = f"k{number}"
        if (bucket := group.bucket(key)) % PARTITIONS == partition:
            found.setdefault(bucket, key)
        number += 1
    return list(found.values())


COSTLY_KEYS = keys_of(0, COSTLY)
CHEAP_KEYS = [keys_of(partition, COSTLY + CHEAP)[COSTLY:] for partition in range(PARTITIONS)]


def request(number: int, turns: int) -> WireRequest:
    """One of nine is costly; of the others partition 0 has one of eight."""
    place, turn = number % 9, number // 9
    if place == 0:
        return WireRequest(f"r{number}", "work", COSTLY_KEYS[turn % COSTLY], "step", [turns])
    partition = 0 if place == 1 else 1 + (number // 9 * 7 + place) % (PARTITIONS - 1)
    return WireRequest(f"r{number}", "work", CHEAP_KEYS[partition][number * 7 % CHEAP], "step", [0])


class Load:
    """At a steady rate; requests are numbered over all phases."""

    def __init__(self, client: TransactionClient, rate: int, turns: int) -> None:
        self.client, self.rate, self.turns = client, rate, turns
        self.sent = self.answered = 0

    def run(self, seconds: float) -> None:
        """Send for so long, then wait for what is left."""
        begin, first, end_s = time.monotonic(), self.sent, time.monotonic() + seconds + WAIT_S
        while (passed_s := time.monotonic() - begin) < seconds or self.answered < self.sent:
            if time.monotonic() > end_s:
                raise RuntimeError(f"{self.sent - self.answered} requests had no reply")
            due = first + int(self.rate * min(passed_s, seconds))
            self.client.send_all([request(number, self.turns) for number in range(self.sent, due)])
            self.sent = due
            self.client.receive(0.004)
            self.answered += len(list(self.client.take_all()))


def shares(requests: Repartitioning) -> list[float]:
    """Of CPU, in percent, since the newest layout."""
    cpu, partitions = requests.cpu(), requests.layout().partitions
    assert cpu is not None and cpu.compares(partitions), "nodes have reported no CPU"
    return [round(100 * cpu.share(partition), 1) for partition in range(partitions)]


def split(log: Log, load: Load, by_cpu: bool, seconds: int) -> dict[str, Any]:
    """One run on a new job."""
    requests = Repartitioning(log, load.client.topics)
    load.run(seconds)
    layout, before = requests.layout(), shares(requests)
    if not by_cpu:
        requests.cpu = lambda: None  # type: ignore[method-assign]
    weights = measured(requests, layout, program.name, None, 0)[0]
    total = max(1, sum(weights.values()))
    homes = layout.homes_of(Group.of(work))
    works = [sum(w for each, w in weights.items() if homes[each.number] == p) for p in range(PARTITIONS)]
    hottest, coldest = works.index(max(works)), works.index(min(works))
    made, told = request_split(requests, program.name, None, hottest, coldest)
    load.run(1)
    told = wait_for_split(requests, told, WAIT_S)
    after = Repartitioning(log, load.client.topics)
    load.run(seconds)
    homes = after.layout().homes_of(Group.of(work))
    moved = sum(homes[Group.of(work).bucket(key)] != 0 for key in COSTLY_KEYS)
    return {
        "by": told.heat_by, "work": [round(100 * each / total, 1) for each in works], "split": hottest, "to": coldest,
        "buckets": told.buckets, "costly_keys_moved": moved, "cpu_before": before, "cpu_after": shares(after),
        "layout": made.number,
    }  # fmt: skip


def run(by_cpu: bool, options: argparse.Namespace) -> dict[str, Any]:
    """On a log of its own."""
    root = str(Path(__file__).parents[3])
    os.environ["PYTHONPATH"] = root  # for the nodes, which import this file
    with tempfile.TemporaryDirectory() as folder, open_log(f"embedded:{folder}/log") as log:
        topics = create_topics(log, program, SEQUENCERS)
        reference = "deploy.bench.transactions.costly:program"
        with bench_fleet(reference, SEQUENCERS, ["--log-dir", f"{folder}/log"], NODES, WAIT_S):
            wait_until_settled(log, topics, (SEQUENCERS, PARTITIONS), NODES, WAIT_S)
            client = TransactionClient(log, program.name)
            send_and_wait(client, [WireRequest("first", "work", "k0", "step", [0])])
            return split(log, Load(client, options.rate, options.turns), by_cpu, options.seconds)


def table(found: Sequence[dict[str, Any]]) -> str:
    """A line for each run."""
    head = ("by", "work by that, %", "split", "to", "buckets", "costly keys moved", "CPU before, %", "CPU after, %")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for each in found:
        work, before, after = (", ".join(map(str, each[name])) for name in ("work", "cpu_before", "cpu_after"))
        cells = [each["by"], work, each["split"], each["to"], each["buckets"], each["costly_keys_moved"], before, after]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="before the split, and after it")
    parser.add_argument("--rate", type=int, default=900, help="requests a second; one of nine is costly")
    parser.add_argument("--turns", type=int, default=40_000, help="of the loop of a costly call")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = [run(by_cpu, options) for by_cpu in (False, True)]
    print(json.dumps(found) if options.json else table(found))


if __name__ == "__main__":
    main()
