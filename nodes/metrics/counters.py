"""Plain counters beside a node's work: cheap to count, read on request.

Two rules for this file: every figure has one thread that writes it, the node's own or the one that saves checkpoints;
nothing here may change what the node does.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holon.columnar.payloads import size_of
from nodes.checkpoints.store import CheckpointKey, CheckpointStore
from nodes.log.contract import FetchedRecords, Log, TopicPartition
from nodes.machine.node import Node
from nodes.metrics.catalogue import DELAY_BUCKETS_S
from nodes.streams.jobs import JobTopics
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

MARKS = 4096
CHECK_INTERVAL_S = 0.02
"""How late it may be seen that this node works on another partition; windows move with what the replica gets."""


@dataclass(slots=True)
class DurationHistogram:
    """Counts of durations by upper bound, the last for what is above all of them."""

    bounds_s: Sequence[float] = DELAY_BUCKETS_S
    counts: list[int] = field(default_factory=list)
    sum_s: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds_s) + 1)

    def observe(self, duration_s: float) -> None:
        self.counts[bisect_left(self.bounds_s, duration_s)] += 1
        self.sum_s += duration_s

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, how many at most so long), as Prometheus wants it."""
        found, total = [], 0
        for bound, count in zip([*map(str, self.bounds_s), "+Inf"], self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


@dataclass(slots=True)
class Meter:
    """The work of a node so far. Times are seconds of ``time.monotonic``, except the log's own stamps."""

    began_s: float = field(default_factory=time.monotonic)
    turned_s: float = field(default_factory=time.monotonic)
    answered_s: float = field(default_factory=time.monotonic)  # when the log last acknowledged something
    idle_s: float = 0.0
    blocked_s: float = 0.0
    in_flight: int = 0
    awaiting_schema: Callable[[], int] = lambda: 0
    stalled_reads: Callable[[], int] = lambda: 0
    state_columns: Callable[[], tuple[int, int]] = lambda: (0, 0)
    records_in: dict[int, int] = field(default_factory=dict)
    records_out: dict[str, int] = field(default_factory=dict)
    read_through_ms: dict[int, int] = field(default_factory=dict)  # by input partition, on the log's clock
    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    checkpoints: int = 0
    checkpoint_bytes: dict[int, int] = field(default_factory=dict)
    checkpoint_s: dict[int, float] = field(default_factory=dict)
    checkpoint_durations: DurationHistogram = field(default_factory=DurationHistogram)
    completion_delays: DurationHistogram = field(default_factory=DurationHistogram)
    failovers: DurationHistogram = field(default_factory=DurationHistogram)
    _marks: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MARKS))
    _answered_ms: int = BEFORE_TIME_MS
    _seen_versions: dict[int, int] = field(default_factory=dict)
    _changes: int = -1
    _checked_s: float = 0.0

    def turn(self, node: Node) -> None:
        """After every turn of the loop."""
        now_s = self.turned_s = time.monotonic()
        if node.replica.changes == self._changes and now_s - self._checked_s < CHECK_INTERVAL_S:
            return
        self._changes, self._checked_s = node.replica.changes, now_s
        newest = max((slot.record.watermark_ms for slot in node.replica.slots), default=BEFORE_TIME_MS)
        if BEFORE_TIME_MS < newest < END_OF_TIME_MS and (not self._marks or newest > self._marks[-1][0]):
            self._marks.append((newest, now_s))
        for partition, runner in node.work.runners.items():
            if not runner.is_running or runner.standby is not None:
                continue
            if self._seen_versions.get(partition) != runner.version:
                self._seen_versions[partition] = runner.version
                self._took_over(node, partition, now_s)
            answered = runner.task.windows.position[0]
            if answered > self._answered_ms:
                self._answered(answered, now_s)

    def _took_over(self, node: Node, partition: int, now_s: float) -> None:
        self.checkpoint_s[partition] = now_s
        silent_since_ms = node.takeovers.pop(partition, None)
        if silent_since_ms is not None:
            self.failovers.observe((node.work.now_ms - silent_since_ms) / 1000)

    def _answered(self, answered_ms: int, now_s: float) -> None:
        """All windows that end at or before ``answered_ms`` are answered; of them the last is measured."""
        self._answered_ms = answered_ms
        passed_s = None
        while self._marks and self._marks[0][0] <= answered_ms:
            mark = self._marks.popleft()
            if mark[0] == answered_ms:
                passed_s = mark[1]
        if passed_s is None and self._marks:
            passed_s = self._marks[0][1]
        if passed_s is not None:
            self.completion_delays.observe(now_s - passed_s)


class CountingLog:
    """A node's log whose traffic is counted by a subclass; everything but reading and sending is the log's own."""

    def __init__(self, log: Log, meter: Meter) -> None:
        self._log = log
        self._meter = meter

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    # Called in each turn, where ``__getattr__`` would cost ten times as much.
    def poll_acks(self, *, wait: bool = False) -> None:
        """As ``Log.poll_acks``."""
        self._log.poll_acks(wait=wait)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        """As ``Log.wait``."""
        return self._log.wait(positions, timeout_s)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        """As ``Log.read``."""
        chunk = self._log.read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)
        return self._counted(topic, partition, chunk)

    def poll(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        """As ``Log.poll``."""
        chunk = self._log.poll(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)
        return self._counted(topic, partition, chunk)

    def _counted(self, topic: str, partition: int, chunk: FetchedRecords) -> FetchedRecords:
        """Count what was read, and give it on."""
        raise NotImplementedError

    def _sends(self, topic: str, values: Sequence[bytes]) -> None:
        """Count what is sent."""
        raise NotImplementedError

    def send(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
        done: Callable[[int], None] = lambda end: None,
    ) -> None:
        """As ``Log.send``."""
        meter = self._meter
        self._sends(topic, values)
        meter.in_flight += 1
        began_s = time.monotonic()

        def delivered(end: int) -> None:
            meter.in_flight -= 1
            meter.answered_s = time.monotonic()
            done(end)

        try:
            self._log.send(topic, partition, values, headers=headers, keys=keys, done=delivered)
        finally:
            meter.blocked_s += time.monotonic() - began_s


class MeteredLog(CountingLog):
    """The log of a streaming node: its input, its broadcast, its outputs."""

    def __init__(self, log: Log, topics: JobTopics, meter: Meter) -> None:
        super().__init__(log, meter)
        self._inputs: dict[tuple[str, int], int] = {
            place: number for number, place in enumerate(topics.layout.places())
        }
        self._broadcast = topics.broadcast
        self._outputs = frozenset(topics.outputs.values())

    def _counted(self, topic: str, partition: int, chunk: FetchedRecords) -> FetchedRecords:
        meter = self._meter
        number = self._inputs.get((topic, partition))
        if number is not None:
            if chunk.values:
                meter.read_through_ms[number] = int(chunk.timestamps_ms[-1])
            elif not self._log.stalls.is_behind(topic, partition):  # nothing came, as at the end
                meter.read_through_ms[number] = time.time_ns() // 1_000_000
            meter.records_in[number] = meter.records_in.get(number, 0) + len(chunk)
        elif chunk.values and topic == self._broadcast:
            meter.received += len(chunk)
            meter.received_bytes += size_of(chunk.values)
        return chunk

    def _sends(self, topic: str, values: Sequence[bytes]) -> None:
        meter = self._meter
        if topic == self._broadcast:
            meter.sent += len(values)
            meter.sent_bytes += sum(map(len, values))
        elif topic in self._outputs:
            meter.records_out[topic] = meter.records_out.get(topic, 0) + len(values)


class MeteredCheckpoints:
    """A checkpoint store with its saves counted."""

    def __init__(self, store: CheckpointStore, meter: Meter) -> None:
        self._store = store
        self._meter = meter

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        meter = self._meter
        began_s = time.monotonic()
        name = self._store.save(key, data, copies)
        ended_s = time.monotonic()
        meter.checkpoints += 1
        meter.checkpoint_bytes[key.partition] = len(data)
        meter.checkpoint_s[key.partition] = ended_s
        meter.checkpoint_durations.observe(ended_s - began_s)
        return name

    def load(self, name: str) -> bytes:
        return self._store.load(name)

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        return self._store.list(job, incarnation, partition)

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        return self._store.prune(job, incarnation, partition, keep, below)

    def discard(self, job: str, incarnation: int, partition: int, names: Collection[str]) -> None:
        self._store.discard(job, incarnation, partition, names)
