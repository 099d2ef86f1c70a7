"""CPU of partitions as nodes report it in heartbeats: what their owners spend on running functions and ending epochs.

Rules for this file. Nothing is written, and nodes may be at work. Figures of nodes are sums since they began, so the
difference of two heartbeats counts, and a lost heartbeat costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from nodes.log.contract import Log
from nodes.transactions.control_history import counted_heartbeats
from nodes.transactions.layouts.heat import chunks
from nodes.transactions.topics import TransactionTopics

CPU_STAT = "cpu/"
"""In heartbeats, before the number of an owned partition: seconds of CPU that the node has spent on it so far."""
MOST_HEARTBEATS = 10_000
"""The newest ones: the topic has those of a minute."""


class RecentCpu(NamedTuple):
    """``cores``: by partition, how much of one core its owners have used; over the last so many ``seconds``."""

    seconds: float
    cores: dict[int, float]

    @property
    def total(self) -> float:
        """Cores, of all partitions."""
        return sum(self.cores.values())

    def share(self, partition: int) -> float:
        """Of the CPU of all partitions, from 0 to 1."""
        return self.cores.get(partition, 0.0) / self.total if self.total else 0.0


def recent_cpu(log: Log, topics: TransactionTopics) -> RecentCpu | None:
    """None: no node has reported any, or only once."""
    end = log.end_offset(topics.heartbeats, 0)
    start = max(log.start_offset(topics.heartbeats, 0), end - MOST_HEARTBEATS)
    first: dict[tuple[str, int], float] = {}
    last: dict[tuple[str, int], float] = {}
    times_ms: list[int] = []
    for chunk in chunks(log, topics.heartbeats, 0, start, end):
        for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
            for heartbeat in counted_heartbeats([value]):
                for name, seconds in heartbeat.stats.items():
                    if (partition := _partition(name)) is not None:
                        first.setdefault((heartbeat.node, partition), seconds)
                        last[heartbeat.node, partition] = seconds
                        times_ms.append(at_ms)
    passed_s = (times_ms[-1] - times_ms[0]) / 1000 if times_ms else 0.0
    if passed_s <= 0:
        return None
    cores: dict[int, float] = {}
    for (node, partition), seconds in sorted(last.items()):
        cores[partition] = cores.get(partition, 0.0) + (seconds - first[node, partition]) / passed_s
    return RecentCpu(passed_s, cores)


def _partition(name: str) -> int | None:
    number = name.removeprefix(CPU_STAT)
    return int(number) if number != name and number.isdecimal() else None
