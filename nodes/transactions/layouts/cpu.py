"""CPU of partitions as nodes report it in heartbeats: what their owners spend on running functions and ending epochs.

Rules for this file. Nothing is written, and nodes may be at work. Figures of nodes are sums since they began, so the
difference of two heartbeats counts, and a lost heartbeat costs nothing. Buckets whose calls cost much are named by the
newest heartbeat of the owner, as parts of its recent CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.ownership.commands import LAYOUT_DONE
from nodes.transactions.control_history import counted_heartbeats
from nodes.transactions.layouts.halves import Bucket
from nodes.transactions.layouts.heat import chunks
from nodes.transactions.topics import TransactionTopics
from transactional.layout import Group, Layout

CPU_STAT = "cpu/"
"""In heartbeats, before the number of an owned partition: seconds of CPU that the node has spent on it so far."""
HOT_STAT = "hot/"
"""Before partition, operator and bucket: the part of the partition's recent CPU that calls of the bucket have."""
MOST_HEARTBEATS = 10_000
"""The newest ones: the topic has those of a minute."""
MOST_CONTROL_RECORDS = 5_000
WEIGHED_CORES, WEIGHED_S = 0.1, 3.0
"""Of less CPU, or in a shorter time, partitions are not compared by it: a job that idles spends it on epochs."""
HotParts = Mapping[tuple[str, int], float]
"""By operator and bucket, from 0 to 1."""
_NONE: Mapping[int, HotParts] = MappingProxyType({})


class RecentCpu(NamedTuple):
    """``cores``: by partition, how much of one core its owners have used; over the last so many ``seconds``.

    ``hot``: by partition, the buckets whose calls cost much.
    """

    seconds: float
    cores: dict[int, float]
    hot: Mapping[int, HotParts] = _NONE

    @property
    def total(self) -> float:
        """Cores, of all partitions."""
        return sum(self.cores.values())

    def compares(self, partitions: int) -> bool:
        """Whether so many can be compared by it: a node of a release before reports nothing of those that it owns."""
        known = self.cores.keys() >= set(range(partitions))
        return known and self.total >= WEIGHED_CORES and self.seconds >= WEIGHED_S

    def share(self, partition: int) -> float:
        """Of the CPU of all partitions, from 0 to 1."""
        return self.cores.get(partition, 0.0) / self.total if self.total else 0.0


def recent_cpu(log: Log, topics: TransactionTopics, since_ms: int = 0) -> RecentCpu | None:
    """Of heartbeats from then on. None: no node has reported any, or only once."""
    end = log.end_offset(topics.heartbeats, 0)
    start = max(log.start_offset(topics.heartbeats, 0), end - MOST_HEARTBEATS)
    return cpu_of(
        (at_ms, heartbeat)
        for chunk in chunks(log, topics.heartbeats, 0, start, end)
        for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True)
        if at_ms >= since_ms
        for heartbeat in counted_heartbeats([value])
    )


def cpu_of(heartbeats: Iterable[tuple[int, m.Heartbeat]]) -> RecentCpu | None:
    """In the order of the log, with append times in ms."""
    first: dict[tuple[str, int], float] = {}
    last: dict[tuple[str, int], float] = {}
    hot: dict[int, dict[tuple[str, int], float]] = {}
    times_ms: list[int] = []
    for at_ms, heartbeat in heartbeats:
        for name, figure in heartbeat.stats.items():
            if (partition := _partition(name)) is not None:
                first.setdefault((heartbeat.node, partition), figure)
                last[heartbeat.node, partition] = figure
                hot[partition] = {}
                times_ms.append(at_ms)
        for name, figure in heartbeat.stats.items():
            if (named := _hot(name)) is not None and named[0] in hot:
                hot[named[0]][named[1:]] = figure
    passed_s = (times_ms[-1] - times_ms[0]) / 1000 if times_ms else 0.0
    if passed_s <= 0:
        return None
    cores: dict[int, float] = {}
    for (node, partition), seconds in sorted(last.items()):
        cores[partition] = cores.get(partition, 0.0) + (seconds - first[node, partition]) / passed_s
    return RecentCpu(passed_s, cores, {partition: parts for partition, parts in hot.items() if parts})


def layout_held_ms(log: Log, topics: TransactionTopics) -> int:
    """The time at which the last layout began to hold: older figures are of other homes. 0: none is known."""
    end, found = log.end_offset(topics.control, 0), 0
    start = max(log.start_offset(topics.control, 0), end - MOST_CONTROL_RECORDS)
    for chunk in chunks(log, topics.control, 0, start, end):
        for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
            try:
                message = m.decode_control(value)
            except m.BadMessage:
                continue
            if isinstance(message, m.Command) and message.name in (LAYOUT_DONE, m.LAYOUT_PORTION):
                found = at_ms
    return found


def bucket_shares(
    cpu: RecentCpu, layout: Layout, groups: Mapping[str, Group], heats: Mapping[Bucket, int]
) -> dict[Bucket, float]:
    """Each bucket's part of the CPU of all partitions, from 0 to 1; ``groups``: of operators.

    Buckets whose calls cost much have what was measured. The rest of a partition's CPU is divided by heat.
    """
    places = {each.group: place for place, each in enumerate(layout.groups)}
    by_home: dict[int, dict[Bucket, int]] = {}
    for bucket, heat in heats.items():
        by_home.setdefault(layout.groups[bucket.place].homes[bucket.number], {})[bucket] = heat
    found: dict[Bucket, float] = {}
    for partition in range(layout.partitions):
        measured: dict[Bucket, float] = {}
        left = 1.0
        for (operator, number), part in sorted(cpu.hot.get(partition, {}).items()):
            place = places.get(groups[operator]) if operator in groups else None
            left -= part
            if place is not None and layout.groups[place].homes[number : number + 1] == (partition,):
                bucket = Bucket(place, number)
                measured[bucket] = measured.get(bucket, 0.0) + part
        mine = by_home.get(partition, {})
        total = sum(mine.values())
        left = max(0.0, left) if total else 0.0
        if (known := sum(measured.values()) + left) > 0:
            for bucket in sorted({*measured, *mine}):
                part = measured.get(bucket, 0.0) + (left * mine.get(bucket, 0) / total if total else 0.0)
                found[bucket] = cpu.share(partition) * part / known
    return found


def _partition(name: str) -> int | None:
    number = name.removeprefix(CPU_STAT)
    return int(number) if number != name and number.isdecimal() else None


def _hot(name: str) -> tuple[int, str, int] | None:
    """Partition, operator and bucket."""
    partition, _, rest = name.removeprefix(HOT_STAT).partition("/")
    operator, _, number = rest.rpartition("/")
    named = name.startswith(HOT_STAT) and partition.isdecimal() and number.isdecimal()
    return (int(partition), operator, int(number)) if named else None
