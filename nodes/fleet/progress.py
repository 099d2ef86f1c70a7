"""Progress: what the live view shows at one moment, worked out of the monitor, the log and the fleet's processes."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from holon.tracks.admission import AdmissionCounts
from nodes.fleet.held_frontier import held_frontier
from nodes.fleet.monitor import Monitor, NodeView
from nodes.fleet.processes import Fleet
from nodes.fleet.watermarks import Watermarks
from nodes.machine.workload import WINDOWS_LEFT
from nodes.streams.held_frontier import HeldFrontier

RATE_WINDOW_S = 3.0
WATERMARKS_INTERVAL_S = 0.5
GONE_AFTER_MS = 10_000


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One input partition. ``ahead_ms``: by how much its watermark is ahead of the frontier."""

    partition: int
    owner: int | None
    version: int
    offset: int
    end: int
    rate_per_s: float
    watermark_ms: int | None
    ahead_ms: int | None

    @property
    def lag(self) -> int:
        """Records that wait."""
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One incarnation of a node; ``memory_bytes`` is known of processes of this fleet alone."""

    number: int
    silent_ms: int
    partitions: int
    emitted: int
    suppressed: int
    steals: int
    memory_bytes: int | None
    metrics_port: int | None = None
    windows_left: int = 0


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Everything that the view shows. ``frontier_lag_ms``: newest watermark of any partition minus the frontier.

    ``taken`` are the log's records up to the checkpoints that ``counts`` come from: the two have to agree.
    """

    job: str
    incarnation: int
    frontier_ms: int | None
    frontier_lag_ms: int | None
    rate_per_s: float
    taken: int
    counts: AdmissionCounts
    steals: int
    silent_after_ms: int
    partitions: tuple[PartitionRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    held: HeldFrontier | None = None

    @property
    def windows_left(self) -> int:
        """Windows to be answered yet in partitions whose input has ended; one counts in each partition."""
        return sum(row.windows_left for row in self.nodes)


@dataclass(slots=True)
class _Rate:
    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def per_s(self, now_s: float, count: int) -> float:
        self.seen.append((now_s, count))
        while now_s - self.seen[0][0] > RATE_WINDOW_S and len(self.seen) > 2:
            self.seen.popleft()
        first_s, first = self.seen[0]
        return (count - first) / (now_s - first_s) if now_s > first_s else 0.0


class ProgressReader:
    """Call ``read`` at every refresh, after ``monitor.poll()``; rates are those of the last seconds."""

    def __init__(self, monitor: Monitor, fleet: Fleet, silent_after_ms: int) -> None:
        self.monitor = monitor
        self.fleet = fleet
        self.silent_after_ms = silent_after_ms
        partitions = range(monitor.run.partitions)
        self._rates = {partition: _Rate() for partition in partitions}
        self._watermarks = Watermarks(monitor)
        self._watermarks_s = float("-inf")

    def read(self, now_s: float, wall_ms: int) -> JobProgress:
        """The progress known at ``now_s`` (any steady clock) and ``wall_ms`` (the clock of the log's timestamps)."""
        if now_s - self._watermarks_s >= WATERMARKS_INTERVAL_S:
            self._watermarks_s = now_s
            self._watermarks.read()
        monitor = self.monitor
        frontier = self._frontier()
        rows = tuple(self._row(partition, now_s, frontier) for partition in range(monitor.run.partitions))
        newest = max((row.watermark_ms for row in rows if row.watermark_ms is not None), default=None)
        return JobProgress(
            monitor.run.job.name,
            monitor.run.incarnation,
            frontier,
            None if frontier is None or newest is None else newest - frontier,
            sum(row.rate_per_s for row in rows),
            sum(monitor.taken()),
            monitor.counts(),
            monitor.steals,
            self.silent_after_ms,
            rows,
            self._node_rows(wall_ms),
            held_frontier(monitor, self._watermarks.known),
        )

    def _frontier(self) -> int | None:
        """The least watermark; None until every partition has one."""
        known = self._watermarks.known
        if len(known) < self.monitor.run.partitions:
            return None
        return min(known.values())

    def _row(self, partition: int, now_s: float, frontier: int | None) -> PartitionRow:
        monitor, ownership = self.monitor, self.monitor.ownership
        offset = monitor.progress[partition]
        owner = ownership.owner(partition)
        end = monitor.input_end(partition)
        watermark = self._watermarks.known.get(partition)
        return PartitionRow(
            partition,
            None if owner is None else ownership.members.get(owner, -1),
            ownership.version(partition),
            offset,
            end,
            self._rates[partition].per_s(now_s, offset),
            watermark,
            None if watermark is None or frontier is None else watermark - frontier,
        )

    def _node_rows(self, wall_ms: int) -> tuple[NodeRow, ...]:
        ownership = self.monitor.ownership
        newest: dict[object, NodeView] = {}  # of a number's incarnations the last one that spoke; without a number, all
        for view in sorted(self.monitor.nodes.values(), key=lambda view: (view.last_heartbeat_ms, view.node)):
            if view.node in ownership.members:
                number = ownership.members[view.node]
                newest[number if number >= 0 else view.node] = view
        memory = {member.number: member.bytes_now for member in self.fleet.running()}
        rows = []
        for view in newest.values():
            number, silent_ms = ownership.members[view.node], max(0, wall_ms - view.last_heartbeat_ms)
            if silent_ms > GONE_AFTER_MS:
                continue  # it is dead, and no Goodbye was written for it
            rows.append(
                NodeRow(
                    number,
                    silent_ms,
                    len(ownership.owned_by(view.node)),
                    int(view.stats.get("emitted", 0)),
                    int(view.stats.get("suppressed", 0)),
                    int(view.stats.get("steals", 0)),
                    memory.get(number) if silent_ms < self.silent_after_ms else None,
                    int(view.stats.get("metrics_port", 0)) or None,
                    int(view.stats.get(WINDOWS_LEFT, 0)),
                )
            )
        return tuple(sorted(rows, key=lambda row: row.number))


def wall_clock_ms() -> int:
    """The clock of the log's timestamps."""
    return time.time_ns() // 1_000_000
