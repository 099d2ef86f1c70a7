"""Facts of all nodes of a large simulated fleet, computed once: the fold of the control topic, the replica.

Two rules for this file: everybody is at the same offsets (those at which the current moment began), so what is shared
is what each would have by itself; a node that is not shared, in the same fleet, must be equal to it in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from nodes.log.contract import Log, TopicPartition
from nodes.machine import events as e
from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.broadcast import window_retention as keeping
from nodes.machine.config import JobRun, NodeConfig
from nodes.machine.node import Node
from nodes.machine.ownership.ownership import Ownership
from nodes.sim.node_process import InvariantBroken
from nodes.streams.driver import Driver
from nodes.streams.jobs import JobTopics
from wcrdt.replica.replica import Received, Replica, SlotDelta
from wcrdt.windows.assigners import Window

if TYPE_CHECKING:
    from nodes.machine.runner import Runner

READ = 100_000
MANY = 10_000


class SharedReplica(Replica):
    """A replica that many nodes read: no node drops anything of it, and what is read often is kept up to date."""

    def __init__(self, run: JobRun) -> None:
        super().__init__(run.partitions, run.job.program.shapes(), run.job.allowed_lateness_ms)
        self._known: dict[str, dict[Window, None]] = {state: {} for state in self.shapes}

    def receive(self, delta: SlotDelta) -> Received:
        """As for one node; also remembers which windows there are."""
        received = super().receive(delta)
        for track in delta.tracks:
            for change in track.changes:
                for window in self.shapes[change.state].windows(Window(change.start_ms, change.end_ms)):
                    self._known[change.state][window] = None
        return received

    def windows(self, state: str) -> Iterator[Window]:
        """Windows of a state to which some partition has contributed."""
        return iter(self._known[state])

    def open_windows(self) -> int:
        """How many windows are known."""
        return sum(len(windows) for windows in self._known.values())

    def drop_through(self, end_ms: int) -> None:
        """Others may read it yet."""

    def drop_for_all(self, end_ms: int) -> None:
        """No node does."""
        super().drop_through(end_ms)
        for windows in self._known.values():
            for window in [window for window in windows if window.end_ms <= end_ms]:
                del windows[window]

    def reset(self) -> None:
        """A rewind would concern one node alone."""
        raise InvariantBroken("a node of the large fleet lacks history")


class Shared:
    """The common knowledge, up to where the log ended when ``sync`` was called last."""

    def __init__(self, log: Log, run: JobRun) -> None:
        self.log = log
        self.run = run
        self.topics = JobTopics.of(run)
        self.ownership = Ownership(run.partitions)
        self.replica = SharedReplica(run)
        self.inboxes: dict[str, list[f.Fact]] = {}
        self.dirty: set[int] = set()
        self.control_at = 0
        self._broadcast_at = [0] * run.partitions
        self._decoded: dict[bytes, m.ControlMessage] = {}

    def decoded(self, value: bytes) -> m.ControlMessage:
        """A heartbeat, which many read."""
        if value not in self._decoded:
            if len(self._decoded) > MANY:
                self._decoded.clear()
            self._decoded[value] = m.decode_control(value)
        return self._decoded[value]

    def sync(self) -> None:
        """Read the control topic, and what is new on the broadcast, to their ends."""
        while len(chunk := self.log.read(self.topics.control, 0, self.control_at, max_records=READ)):
            self.control_at = chunk.next_offset
            for value in chunk.values:
                for fact in self.ownership.apply(m.decode_control(value)):
                    self._route(fact)
        dirty, self.dirty = sorted(self.dirty), set()
        for partition in dirty:
            chunk = self.log.read(self.topics.broadcast, partition, self._broadcast_at[partition], max_records=READ)
            self._broadcast_at[partition] = chunk.next_offset
            for value in chunk.values:
                message = m.decode_broadcast(value)
                if not isinstance(message, m.SlotSent) or self.replica.receive(message.delta).gap:
                    raise InvariantBroken(f"partition {partition}: {message} does not fit into the shared replica")

    def _route(self, fact: f.Fact) -> None:
        """To the members that it concerns; those that read the fold see it there anyway."""
        match fact:
            case f.NodeJoined(node) | f.PartitionReleased(_, _, node):
                concerned = [node]
            case f.PartitionClaimed(_, node, _, previous):
                concerned = [node, previous]
            case f.SlotRequested(partition):
                concerned = [self.ownership.owner(partition)]
            case f.CheckpointRecorded() | f.MergedRecorded() | f.ClaimLost():
                concerned = []
            case _:
                concerned = list(self.inboxes)
        for node in concerned:
            if node in self.inboxes:
                self.inboxes[node].append(fact)

    def drop_windows(self, runners: list[Runner]) -> None:
        """Forget what no checkpoint and none of these, all of the fleet's, still needs."""
        recorded = keeping.recorded_through_ms(self.run.job, self.ownership)
        through = min(recorded, keeping.unread_after_ms(self.run.job, runners))
        if through > self.replica.dropped_through_ms:
            self.replica.drop_for_all(through)
            for runner in runners:
                runner.task.drop_through(through)


class SharedNode(Node):
    """The real node on shared knowledge: control records come to it as what they meant."""

    def __init__(self, config: NodeConfig, shared: Shared) -> None:
        self._shared = shared
        super().__init__(config, shared.run, shared.ownership)

    def _make_replica(self) -> Replica:
        return self._shared.replica

    def _control_read(self, read: e.ControlRead) -> None:
        for fact in self._shared.inboxes[self.config.node]:
            self.member.learn(fact)
            self._learn(fact)
        self._shared.inboxes[self.config.node] = []
        self._folded(read)

    def _heartbeats_read(self, values: Sequence[bytes]) -> None:
        for value in values:
            node = self.member.receive_heartbeat(self._shared.decoded(value), self._now_ms)
            if node is not None:
                self.heartbeats.record_heartbeat(node)

    def _request_missing(self) -> None:
        """Nothing ever is: a delta that does not fit ends the simulation."""


class SharedDriver(Driver):
    """The real driver, but what is shared has been read already."""

    _shared_out_ms: int | None = None
    """When the node last decided on claims."""

    def _turn_control(self, ready: Collection[TopicPartition] | None) -> bool:
        shared, now = self._shared_by(), self.now_ms()
        changed = bool(shared.inboxes[self.node.config.node])
        due = self._shared_out_ms is None or now - self._shared_out_ms >= self.node.config.heartbeat_interval_ms
        if changed or due:
            self._shared_out_ms = now
            self._events.append(e.ControlRead([], True, True, shared.control_at))
            self._flush_events()
        return changed

    def _turn_broadcast(self, ready: Collection[TopicPartition] | None) -> bool:
        return False

    def _shared_by(self) -> Shared:
        assert isinstance(self.node, SharedNode)
        return self.node._shared
