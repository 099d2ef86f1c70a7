"""The monitor: what a fleet is doing, read from the job's own topics. It takes no part and is needed by nobody."""

from __future__ import annotations

from dataclasses import dataclass, field

from holon.admit import Counts
from nodes.jobs import Topics
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.config import JobRun
from nodes.machine.facts import JobFailed, PartitionClaimed
from nodes.machine.ownership import Ownership


@dataclass(slots=True)
class NodeView:
    """One life of a node, as its heartbeats tell."""

    node: str
    number: int
    heard_ms: int
    stats: dict[str, float] = field(default_factory=dict)


class Monitor:
    """Folds control and heartbeat topics; call ``poll`` now and then."""

    def __init__(self, log: Log, run: JobRun) -> None:
        self.log = log
        self.run = run
        self.topics = Topics.of(run)
        self.ownership = Ownership(run.partitions)
        self.progress: dict[int, int] = dict(enumerate(run.start_offsets))
        self.nodes: dict[str, NodeView] = {}
        self.steals = 0
        self.failure: str | None = None
        self._control_at = 0
        self._heartbeats_at = log.end_offset(self.topics.heartbeats, 0)

    def poll(self) -> None:
        """Read what is new."""
        while (chunk := self.log.read(self.topics.control, 0, self._control_at)).next_offset > self._control_at:
            self._control_at = chunk.next_offset
            for value in chunk.values:
                self._control(value)
        try:
            chunk = self.log.read(self.topics.heartbeats, 0, self._heartbeats_at)
        except OffsetOutOfRange:
            self._heartbeats_at = self.log.start_offset(self.topics.heartbeats, 0)
            return
        self._heartbeats_at = chunk.next_offset
        for value, stamp in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
            self._heartbeat(value, stamp)

    @property
    def consumed(self) -> int:
        """Input records that the fleet has processed, as far as it has said so."""
        return sum(offset - start for offset, start in zip(self._offsets(), self.run.start_offsets, strict=True))

    def counts(self) -> Counts:
        """What became of the records, summed over the newest checkpoints."""
        total = Counts()
        for partition in range(self.run.partitions):
            saved = self.ownership.checkpoint(partition)
            if saved is not None:
                accepted, filtered, late, dead = saved.counts
                total.accepted += accepted
                total.filtered += filtered
                total.late += late
                total.dead += dead
        return total

    def numbers(self) -> dict[int, str]:
        """Present nodes: number -> the name of the newest life."""
        return {number: node for node, number in self.ownership.members.items()}

    def _offsets(self) -> list[int]:
        return [self.progress[partition] for partition in range(self.run.partitions)]

    def _control(self, value: bytes) -> None:
        try:
            message = m.decode_control(value)
        except m.BadMessage:
            return
        for fact in self.ownership.apply(message):
            if self.ownership.incarnation != self.run.incarnation:
                continue
            if isinstance(fact, PartitionClaimed) and fact.previous is not None:
                self.steals += 1
            if isinstance(fact, JobFailed):
                self.failure = fact.failure.error
        if isinstance(message, m.CheckpointSaved) and message.incarnation == self.run.incarnation:
            self.progress[message.partition] = max(self.progress[message.partition], message.offset)

    def _heartbeat(self, value: bytes, stamp_ms: int) -> None:
        try:
            message = m.decode_control(value)
        except m.BadMessage:
            return
        if not isinstance(message, m.Heartbeat) or message.incarnation != self.run.incarnation:
            return
        known = self.nodes.get(message.node)
        number = self.ownership.members.get(message.node, -1 if known is None else known.number)
        stats = message.stats or ({} if known is None else known.stats)
        self.nodes[message.node] = NodeView(message.node, number, stamp_ms, stats)
        for partition, offset in message.progress.items():
            if partition < self.run.partitions:
                self.progress[partition] = max(self.progress[partition], offset)
