"""A node's figures at one moment, taken on request by the node's own thread: no other thread reads a moving state.

Between two requests nothing is done but counting: a node that is not scraped pays nothing.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodes.machine.node import Node
from nodes.machine.runner import Runner
from nodes.metrics.catalogue import METRICS, Metric
from nodes.metrics.counters import DurationHistogram, Meter
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

ANSWER_S = 0.5
"""How long a request waits for the node's thread; then it gets the figures of the last request."""
OUTCOMES = ("accepted", "filtered", "late", "dead", "duplicates")

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """``values`` by metric and labels; ``histograms``: cumulative counts and sum, by metric; ``at_s`` is monotonic.

    ``catalogue`` holds what a node of this kind may show. ``problems``: why it is not ready, each in a sentence.
    """

    at_s: float = 0.0
    joined: bool = False
    loading: tuple[int, ...] = ()
    lag_s: float = 0.0
    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    histograms: dict[str, tuple[list[tuple[str, float]], float]] = field(default_factory=dict)
    catalogue: Mapping[str, Metric] = field(default_factory=lambda: METRICS)
    problems: tuple[str, ...] = ()


class Desk(ABC):
    """Where a node's thread leaves figures for the threads that request them."""

    def __init__(self) -> None:
        self.last = MetricFigures()
        self._wanted = False
        self._given = threading.Condition()

    @abstractmethod
    def _take(self) -> MetricFigures:
        """The figures of now, by the node's own thread."""

    def serve(self) -> None:
        """At every turn of the node's loop."""
        if self._wanted:
            figures = self._take()
            with self._given:
                self._wanted = False
                self.last = figures
                self._given.notify_all()

    def request(self, timeout_s: float = ANSWER_S) -> MetricFigures:
        """From any other thread: the figures of now, or of the last request where the node's thread does not turn."""
        with self._given:
            before = self.last
            self._wanted = True
            self._given.wait_for(lambda: self.last is not before, timeout_s)
            return self.last


class FigureDesk(Desk):
    """Of a node of a streaming job."""

    def __init__(self, node: Node, meter: Meter) -> None:
        super().__init__()
        self.node = node
        self.meter = meter
        self._rates = Rates()

    def _take(self) -> MetricFigures:
        return take(self.node, self.meter, self._rates)


@dataclass(slots=True)
class Rates:
    """Shares of the time since they were last taken, at most that often."""

    at_s: float = 0.0
    idle_s: float = 0.0
    blocked_s: float = 0.0
    shares: tuple[float, float, float] = (0.0, 0.0, 1.0)

    def take(self, now_s: float, meter: Meter) -> tuple[float, float, float]:
        """(busy, blocked, idle); the first time since the node began."""
        passed_s = now_s - (self.at_s or meter.began_s)
        if passed_s >= 0.1:
            idle = min(1.0, (meter.idle_s - self.idle_s) / passed_s)
            blocked = min(1.0 - idle, (meter.blocked_s - self.blocked_s) / passed_s)
            self.shares = (1.0 - idle - blocked, blocked, idle)
            self.at_s, self.idle_s, self.blocked_s = now_s, meter.idle_s, meter.blocked_s
        return self.shares


def take(node: Node, meter: Meter, rates: Rates) -> MetricFigures:
    """The figures of now; only the node's own thread may call it."""
    now_s, wall_ms = time.monotonic(), time.time_ns() // 1_000_000
    runners = [runner for _, runner in sorted(node.work.runners.items()) if runner.standby is None]
    running = node.work.owned()
    values = _of_node(node, meter, now_s) | of_time(meter, rates, now_s) | _of_log(meter)
    lags = {runner.partition: _lag_s(runner, meter, wall_ms) for runner in running}
    values["holon_lag_seconds"] = {(str(p),): lag_s for p, lag_s in lags.items()}
    values |= _of_partitions(running, meter, now_s)
    return MetricFigures(
        now_s,
        node.member.joined,
        tuple(runner.partition for runner in runners if not runner.is_running),
        max(lags.values(), default=0.0),
        values,
        {
            "holon_window_completion_delay_seconds": histogram_of(meter.completion_delays),
            "holon_failover_duration_seconds": histogram_of(meter.failovers),
            "holon_checkpoint_duration_seconds": histogram_of(meter.checkpoint_durations),
        },
    )


def _of_node(node: Node, meter: Meter, now_s: float) -> dict[str, dict[Labels, float]]:
    run, config = node.run, node.config
    owned = [runner for runner in node.work.runners.values() if runner.standby is None]
    info = (run.job.name, config.node, str(config.number), str(run.incarnation))
    plain: dict[str, float] = {
        "holon_duplicates_suppressed": node.work.suppressed,
        "holon_open_windows": node.replica.open_windows(),
        "holon_bad_messages": node.bad_messages,
        "holon_partitions_owned": len(owned),
        "holon_partitions_standby": len(node.work.runners) - len(owned),
        "holon_partitions_awaiting_schema": meter.awaiting_schema(),
        "holon_stalled_reads": meter.stalled_reads(),
        "holon_standby_results_published": node.work.replicas.published,
        "holon_promotions": node.work.replicas.promotions,
        "holon_standby_restarts": node.work.replicas.restarts,
        "holon_unacknowledged_writes": meter.in_flight,
        "holon_members": len(node.ownership.members),
        "holon_steals": node.steals,
        "holon_uptime_seconds": now_s - meter.began_s,
    }
    frontier_ms = node.replica.frontier_ms
    if BEFORE_TIME_MS < frontier_ms < END_OF_TIME_MS:
        plain["holon_frontier_ms"] = frontier_ms
    in_memory, in_files = meter.state_columns()
    columns = {("memory",): float(in_memory), ("files",): float(in_files)}
    values = {"holon_node_info": {info: 1.0}, "holon_state_column_bytes": columns}
    return values | {name: {(): float(value)} for name, value in plain.items()}


def of_time(meter: Meter, rates: Rates, now_s: float) -> dict[str, dict[Labels, float]]:
    """How busy the node is."""
    busy, blocked, idle = rates.take(now_s, meter)
    plain = {
        "holon_busyTimeMsPerSecond": 1000 * busy,
        "holon_backPressuredTimeMsPerSecond": 1000 * blocked,
        "holon_idleTimeMsPerSecond": 1000 * idle,
        "holon_busy_seconds": max(0.0, now_s - meter.began_s - meter.idle_s - meter.blocked_s),
        "holon_backpressured_seconds": meter.blocked_s,
        "holon_idle_seconds": meter.idle_s,
    }
    return {name: {(): value} for name, value in plain.items()}


def _of_log(meter: Meter) -> dict[str, dict[Labels, float]]:
    return {
        "holon_numRecordsIn": {(str(p),): float(count) for p, count in sorted(meter.records_in.items())},
        "holon_numRecordsOut": {(topic,): float(count) for topic, count in sorted(meter.records_out.items())},
        "holon_delta_bytes": {("sent",): float(meter.sent_bytes), ("received",): float(meter.received_bytes)},
        "holon_deltas": {("sent",): float(meter.sent), ("received",): float(meter.received)},
        "holon_checkpoints": {(): float(meter.checkpoints)},
    }


def _of_partitions(running: list[Runner], meter: Meter, now_s: float) -> dict[str, dict[Labels, float]]:
    values: dict[str, dict[Labels, float]] = {
        "holon_partition_records_taken": {},
        "holon_partition_records": {},
        "holon_partition_late_inserts": {},
        "holon_partition_late_rows": {},
        "holon_currentInputWatermark": {},
        "holon_checkpoint_size_bytes": {},
        "holon_checkpoint_age_seconds": {},
    }
    for runner in running:
        label, counts = (str(runner.partition),), runner.task.counts
        values["holon_partition_records_taken"][label] = float(runner.taken)
        for outcome in OUTCOMES:
            values["holon_partition_records"][(*label, outcome)] = float(getattr(counts, outcome))
        values["holon_partition_late_inserts"][label] = float(counts.late_inserts)
        for state in runner.task.job.program.late_states:
            values["holon_partition_late_rows"][(*label, state)] = float(counts.late_by_state.get(state, 0))
        if BEFORE_TIME_MS < runner.task.watermark_ms < END_OF_TIME_MS:
            values["holon_currentInputWatermark"][label] = float(runner.task.watermark_ms)
        if runner.partition in meter.checkpoint_bytes:
            values["holon_checkpoint_size_bytes"][label] = float(meter.checkpoint_bytes[runner.partition])
        values["holon_checkpoint_age_seconds"][label] = now_s - meter.checkpoint_s.get(runner.partition, now_s)
    return values


def _lag_s(runner: Runner, meter: Meter, wall_ms: int) -> float:
    through_ms = meter.read_through_ms.get(runner.partition)
    if through_ms is None or runner.task.records.ended:
        return 0.0
    return max(0, wall_ms - through_ms) / 1000


def histogram_of(histogram: DurationHistogram) -> tuple[list[tuple[str, float]], float]:
    """As ``MetricFigures.histograms`` holds it."""
    return histogram.cumulative(), histogram.sum_s
