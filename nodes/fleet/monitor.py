"""The monitor: what a fleet is doing, read from the job's own topics. It takes no part, and no node needs it."""

from __future__ import annotations

from dataclasses import dataclass, field

from holon.tracks.admission import AdmissionCounts
from nodes.fleet.event_counts import EventCounts
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.config import JobRun
from nodes.machine.facts import CheckpointRecorded, FleetStopRequested, JobFailed
from nodes.machine.membership.heartbeats import GROUPS
from nodes.machine.ownership.ownership import Ownership
from nodes.streams.control_history import JobControlHistory
from nodes.streams.jobs import JobTopics


@dataclass(slots=True)
class NodeView:
    """One incarnation of a node, as its heartbeats report; without a number until its joining is known."""

    node: str
    number: int | None = None
    last_heartbeat_ms: int = 0
    stats: dict[str, float] = field(default_factory=dict)


class Monitor:
    """Folds control and heartbeat topics; call ``poll`` now and then.

    ``steals`` counts claims of partitions that another node had, since the monitor began. ``failure`` is the text of
    the failure that stops this run, in the words of the node that met it. ``stop_requested``: all nodes were to
    leave; ``superseded``: the job's next incarnation was started.
    """

    def __init__(self, log: Log, run: JobRun) -> None:
        self.log = log
        self.run = run
        self.topics = JobTopics.of(run)
        self.progress: dict[int, int] = dict(enumerate(run.start_offsets))
        self.nodes: dict[str, NodeView] = {}
        self.failure: str | None = None
        self.stop_requested = False
        self.superseded = False
        self._events = EventCounts(log, run.layout, run.start_offsets)
        self._inputs = run.layout.places()
        self._begin()
        self._steals_at = self.ownership.steals()
        self._heartbeats_at: dict[tuple[str, int], int] = {}
        self._heartbeat_places()

    def _begin(self) -> None:
        """Read the control topic up to now."""
        history = JobControlHistory(self.log, self.run.job)
        self._failure_key = history.failure_key(self.run.job)
        self._control_at = history.offset
        self.ownership = history.ownership
        if self.ownership.incarnation > self.run.incarnation:
            self.superseded, self.ownership = True, Ownership(self.run.partitions)
        for failed in self.ownership.failures(self._failure_key):
            self.failure = failed.error
        for partition in range(self.run.partitions):
            saved = self.ownership.checkpoint(partition)
            if saved is not None:
                self.progress[partition] = max(self.progress[partition], saved.offset)

    def poll(self) -> None:
        """Read what is new."""
        try:
            self._read_control()
        except OffsetOutOfRange:  # it was trimmed past this monitor's offset
            self._begin()
        self._heartbeat_places()
        for where, offset in list(self._heartbeats_at.items()):
            try:
                chunk = self.log.read(*where, offset)
            except OffsetOutOfRange:
                self._heartbeats_at[where] = self.log.start_offset(*where)
                continue
            self._heartbeats_at[where] = chunk.next_offset
            for value, stamp in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
                self._heartbeat(value, stamp)
        for view in self.nodes.values():  # a heartbeat may have been read before the joining that gives a number
            view.number = self.ownership.members.get(view.node, view.number)

    def _heartbeat_places(self) -> None:
        """From now on listen to all nodes, and to the groups of a fleet that has grown large."""
        places = [(self.topics.heartbeats, 0)]
        if len(self.ownership.members) > GROUPS:
            groups = self.topics.group_heartbeats
            places += [(groups, group) for group in range(self.log.topics().get(groups, 0))]
        for where in places:
            if where not in self._heartbeats_at:
                self._heartbeats_at[where] = self.log.end_offset(*where)

    def _read_control(self) -> None:
        while (chunk := self.log.read(self.topics.control, 0, self._control_at)).next_offset > self._control_at:
            self._control_at = chunk.next_offset
            for value in chunk.values:
                self._control(value)

    @property
    def steals(self) -> int:
        """See the class; records that were trimmed before this monitor has read them count too."""
        return max(0, self.ownership.steals() - self._steals_at)

    @property
    def consumed(self) -> int:
        """Input records that the fleet has processed, as far as it has reported them."""
        return sum(offset - start for offset, start in zip(self._offsets(), self.run.start_offsets, strict=True))

    def input_end(self, partition: int) -> int:
        """Where the input of a partition ends: the declared end, or how far it goes now."""
        declared = self.ownership.end_offset(partition)
        return self.log.end_offset(*self._inputs[partition]) if declared is None else declared

    @property
    def done(self) -> bool:
        """True once all input of this run has ended and every window is answered, durably."""
        return not self.superseded and self.ownership.all_done()

    @property
    def over(self) -> bool:
        """True if the nodes leave, or have left, for a reason that they all know."""
        return self.superseded or self.stop_requested or self.failure is not None or self.done

    def counts(self) -> AdmissionCounts:
        """The fates of the records, summed over the newest checkpoints."""
        total = AdmissionCounts()
        for partition in range(self.run.partitions):
            saved = self.ownership.checkpoint(partition)
            if saved is not None:
                total = total.plus(AdmissionCounts.of_numbers(saved.counts, self.run.job.program.late_states))
        return total

    def taken(self) -> list[int]:
        """By partition: the events of the log up to the newest checkpoint, by offsets, gaps included.

        Where records are atoms, by decoding them.
        """
        found = []
        for partition in range(self.run.partitions):
            saved = self.ownership.checkpoint(partition)
            found.append(0 if saved is None else self._events.up_to(partition, saved.offset))
        return found

    def conserved(self) -> bool:
        """True if in every partition taken is what the counts add up to, and all of a bounded input is taken."""
        for partition, start in enumerate(self.run.start_offsets):
            saved, end = self.ownership.checkpoint(partition), self.ownership.end_offset(partition)
            counted = 0 if saved is None else saved.taken
            if not self._holds(partition, start if saved is None else saved.offset, counted):
                return False
            if self.done and end is not None and not self._holds(partition, end, counted):
                return False
        return True

    def _holds(self, partition: int, end: int, counted: int) -> bool:
        """True if the log holds so many events up to ``end``.

        They are counted where some offsets may be those of no record: Kafka's transactions and compaction leave such
        gaps. Records that retention has deleted cannot be counted any more.
        """
        place, offset = self._inputs[partition], self.run.start_offsets[partition]
        if self._events.reads(partition):
            return self.log.start_offset(*place) > offset or self._events.up_to(partition, end) == counted
        if counted == end - offset:
            return True
        if counted > end - offset:
            return False
        if self.log.start_offset(*place) > offset:
            return True
        records = 0
        while offset < end and (chunk := self.log.read(*place, offset)).next_offset > offset:
            records += int((chunk.offsets < end).sum())
            offset = chunk.next_offset
        return records == counted

    def numbers(self) -> dict[int, str]:
        """Present nodes: number -> the name of the newest incarnation."""
        return {number: node for node, number in self.ownership.members.items()}

    def metrics_ports(self) -> dict[int, int]:
        """Number of a node -> the port at which its newest incarnation serves metrics."""
        return {
            view.number: int(view.stats["metrics_port"])
            for view in sorted(self.nodes.values(), key=lambda view: view.last_heartbeat_ms)
            if view.number is not None and "metrics_port" in view.stats
        }

    def _offsets(self) -> list[int]:
        return [self.progress[partition] for partition in range(self.run.partitions)]

    def _control(self, value: bytes) -> None:
        try:
            message = m.decode_control(value)
        except m.BadMessage:
            return
        began = self.ownership.incarnation
        if isinstance(message, m.JobStarted) and began == self.run.incarnation and message.incarnation > began:
            self.superseded = True
        if self.superseded:
            return  # the fold stays what it was for this run
        for fact in self.ownership.apply(message):
            if self.ownership.incarnation == self.run.incarnation:
                self._learn(fact)

    def _learn(self, fact: object) -> None:
        if isinstance(fact, CheckpointRecorded):
            self.progress[fact.partition] = max(self.progress[fact.partition], fact.checkpoint.offset)
        elif isinstance(fact, JobFailed) and fact.failure.code_hash == self._failure_key:
            self.failure = fact.failure.error
        elif isinstance(fact, FleetStopRequested):
            self.stop_requested = True

    def _heartbeat(self, value: bytes, stamp_ms: int) -> None:
        try:
            message = m.decode_control(value)
        except m.BadMessage:
            return
        if not isinstance(message, m.Heartbeat) or message.incarnation != self.run.incarnation:
            return
        view = self.nodes.setdefault(message.node, NodeView(message.node))
        view.last_heartbeat_ms = stamp_ms
        view.stats = {**view.stats, **message.stats}
        for partition, offset in message.progress.items():
            if partition < self.run.partitions:
                self.progress[partition] = max(self.progress[partition], offset)
