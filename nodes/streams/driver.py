"""The driver: performs a node's effects on a log and a checkpoint store, and reports the results to it as events.

The same driver runs in a node process and, turn by turn, in the simulation; it starts no thread and reads no clock
but the one it is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from holon.columnar.payloads import size_of
from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.checkpoints.store import CheckpointStore
from nodes.log.contract import FetchedRecords, Log, LogTruncated, OffsetOutOfRange, TopicPartition
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine.broadcast.pieces import PIECE_BYTES
from nodes.machine.config import WantedInput
from nodes.machine.node import Node
from nodes.runtime.control_reader import ControlReader
from nodes.runtime.heartbeat_topics import HeartbeatTopics
from nodes.streams.io.awaited_schemas import AwaitedSchemas, ReadableRecords
from nodes.streams.io.fetching import Fetched, Fetching
from nodes.streams.io.inputs import input_of
from nodes.streams.io.joining import Joining
from nodes.streams.io.output_identities import follow, read_tail
from nodes.streams.io.partition_checkpoints import Storing
from nodes.streams.io.sending import Sending
from nodes.streams.io.shard_reading import ShardReading
from nodes.streams.jobs import JobTopics
from nodes.streams.notices import Notices
from nodes.streams.truncation import Truncation

BROADCAST_BATCH = 1000
CHECK_INTERVAL_MS = 20
LARGE_READ_BYTES = 4 << 20
"""Half of what a read gives at most: beyond it there is probably more."""
FEW_RECORDS = 30_000
"""About so much input of several partitions is processed in one step: with 1,000 a backlog costs half as much again."""
LONG_STEP_MS = 50
"""Where processing takes longer, results do not wait for the next partition's."""


class Driver:
    """One node on its log.

    Writes are sent without waiting for each other (``Log.send``); acknowledgements become events for the node.

    Args: ``now_ms``: the node's clock. ``crashpoint`` is called with a name at every point at which a crash must be
    survived; ``report`` gets lines for the operator. ``saver`` saves checkpoints, ``loader`` loads them, ``merger``
    does what merged checkpoints need: one that waits for the store holds up neither the others nor the node.
    ``schemas``: those that formats request from a registry; None: all that they need is known.
    ``control_at`` is the offset up to which the node's history holds.
    """

    def __init__(
        self,
        node: Node,
        log: Log,
        checkpoints: CheckpointStore,
        now_ms: Callable[[], int],
        *,
        batch_max_records: int = 20_000,
        crashpoint: Callable[[str], None] = lambda name: None,
        report: Callable[[str], None] = lambda line: None,
        saver: Saver[e.Event] | None = None,
        loader: Saver[e.Event | Fetched] | None = None,
        piece_bytes: int = PIECE_BYTES,
        merger: Saver[e.Event] | None = None,
        schemas: AwaitedSchemas | None = None,
        control_at: int = 0,
    ) -> None:
        self.node = node
        self.log = log
        self.now_ms = now_ms
        self.topics = JobTopics.of(node.run)
        self.batch_max_records = batch_max_records
        self.crashpoint = crashpoint
        self.report = report
        self.saver = DirectSaver() if saver is None else saver
        self.loader = DirectSaver() if loader is None else loader
        self.merger = DirectSaver() if merger is None else merger
        self.schemas = schemas
        self.loading = self.input_records = 0
        self._storing = Storing(checkpoints, node.run, node.ownership, crashpoint, report)
        self._joining = Joining(log, checkpoints, node.run, node.ownership, report)
        self._fetching = Fetching(self._joining, self._fetch)
        self.truncation = Truncation(node, log, report)
        self._shards = ShardReading(log, node.work, self.topics.shards, self._joining)
        self._sending = Sending(log, node.run, self.truncation, crashpoint, piece_bytes)
        self._notices = Notices(node, report)
        self.heartbeats = HeartbeatTopics(
            log, node.config.node, self.topics.heartbeats, self.topics.group_heartbeats,
            failure_timeout_ms=node.config.failure_timeout_ms,
        )  # fmt: skip
        self.control = ControlReader(log, self.topics.control, control_at)
        self._broadcast = [TopicPartition(self.topics.broadcast, p) for p in range(node.run.partitions)]
        self._source = [TopicPartition(*place) for place in self.topics.layout.places()]
        self._broadcast_at = [0] * node.run.partitions
        self.hurry = False  # the next turn is wanted at once, for something that ``Log.wait`` does not report
        self._checked_ms = -CHECK_INTERVAL_MS
        self._events: list[e.Event] = []  # for the node's next step
        self._begun = self._stepped = self._slow = False
        self._broadcast_at_end = True

    def report_figures(self, figures: Mapping[str, float]) -> None:
        """The next heartbeats carry these besides, by name."""
        self._events.append(e.FiguresChanged(figures))

    # --- turns ------------------------------------------------------------------------------------------------------

    def turn(self, ready: Collection[TopicPartition] | None = None) -> bool:
        """Poll every topic once and process its records, or a large batch of them; False if nothing was to do.

        ``ready``: of what ``waits_for`` names, poll only the partitions where ``Log.wait`` has found something; all of
        them every ``CHECK_INTERVAL_MS``, and at the first turn.
        """
        with self.truncation.recording_losses():
            return self._turn(ready)

    def _turn(self, ready: Collection[TopicPartition] | None) -> bool:
        self.truncation.check()
        now = self.now_ms()
        if self.schemas is not None:
            self.schemas.poll(now)
        self.hurry = False
        if not self._begun:
            self._begun = True
            self._flush_events()  # the first heartbeat follows from the first event: the figures go before it
            self._go_on_from(self._fetching.begin())
        if ready is None or not 0 <= now - self._checked_ms < CHECK_INTERVAL_MS:
            ready, self._checked_ms = None, now
        self._stepped = False
        self._turn_writes()
        moved = self._turn_control(ready)
        if self.node.left is not None:
            return True  # what it read from here on would be taken for known
        if ready is None:
            self.hurry |= self._turn_heartbeats()
        moved |= self._turn_broadcast(ready)
        self._events += (contributions := self._shards.poll(ready))
        moved |= bool(contributions)
        self.hurry |= self._turn_outputs()
        self._flush_events()
        moved |= self._turn_input(ready) or self.hurry
        if ready is None:
            self._query_ends()
        if figures := self._notices.poll(now):
            self.report_figures(figures)
        if not self._stepped:
            self.dispatch(e.Ticked())
        return moved

    def _flush_events(self) -> None:
        """Let the node take one step for all events: most of the cost of a step does not depend on their number."""
        if self._events:
            events, self._events = self._events, []
            self.dispatch(events[0] if len(events) == 1 else e.EventBatch(events))

    def finish(self) -> None:
        """Wait until the log has acknowledged all writes; if the job is done, check that they are there."""
        with self.truncation.recording_losses():
            self.log.poll_acks(wait=True)
            self.truncation.check()
            if self.node.left is not None and self.node.left.ending is x.Ending.DONE:
                self.truncation.last_check()

    def waits_for(self) -> dict[TopicPartition, int]:
        """The positions at which something new would concern this node."""
        positions = {self.control.where: self.control.position}
        for partition, offset in enumerate(self._broadcast_at):
            if not self._fetching.waits(partition):
                positions[self._broadcast[partition]] = offset
        positions |= self._shards.positions
        for wanted in self._wanted():
            positions[self._source[wanted.partition]] = wanted.offset
        return positions

    def _turn_writes(self) -> None:
        """Collect acknowledgements of writes, and finished saves and loads."""
        self.log.poll_acks()
        self._events += [*self._sending.acknowledged(), *self.saver.finished(), *self.merger.finished()]
        for loaded in self.loader.finished():
            self._flush_events()
            self.loading -= 1
            if isinstance(loaded, Fetched):
                self._go_on_from(self._fetching.arrived(loaded))
            else:
                self.dispatch(loaded)

    def _turn_control(self, ready: Collection[TopicPartition] | None) -> bool:
        wanted = ready is None or self.control.where in ready
        try:
            read = self.control.read(self.now_ms(), self.node.needs_end, wanted=wanted)
        except OffsetOutOfRange as error:
            topic, position = self.topics.control, self.control.position
            lost = self.truncation.beyond_end(topic, 0, position)
            raise lost or self._joining.fell_behind(topic, 0, position) from error
        if read is None:
            return False
        self._events.append(e.ControlRead(read.values, read.at_end, read.end_queried, read.next_offset))
        self._flush_events()
        if read.at_end and not read.end_queried and self.node.needs_end():
            self.control.reread_end()  # so the next turn requests it
            self.hurry = True
        return bool(read.values)

    def _turn_heartbeats(self) -> bool:
        values, more = self.heartbeats.read(self.node.heartbeats.group, self.now_ms())
        if values:
            self._events.append(e.HeartbeatsRead(values))
        return more

    def _turn_broadcast(self, ready: Collection[TopicPartition] | None) -> bool:
        moved = False
        self._broadcast_at_end = True
        for partition in range(len(self._broadcast_at)):
            if self._fetching.waits(partition):
                self._broadcast_at_end = False
                continue
            if ready is not None and self._broadcast[partition] not in ready:
                continue
            offset = self._broadcast_at[partition]
            try:
                chunk = self.log.poll(self.topics.broadcast, partition, offset, max_records=BROADCAST_BATCH)
            except (LogTruncated, OffsetOutOfRange) as error:
                self._flush_events()  # it may set all positions back
                if self.truncation.broadcast_lost(partition, offset, error):
                    self._reread(partition)
                else:  # trimmed past this node's next read, as after a long pause
                    self._go_on_from(self._fetching.again(partition, offset))
                moved = self.hurry = True
                continue
            self._broadcast_at_end &= len(chunk.values) < BROADCAST_BATCH
            if chunk.values:
                self._broadcast_at[partition] = chunk.next_offset
                self._events.append(e.BroadcastRead(partition, chunk.values, offset, chunk.next_offset))
                moved = True
        return moved

    def _reread(self, partition: int) -> None:
        """The end of a broadcast partition is gone, and may be another one now: begin it again."""
        self.dispatch(e.BroadcastLost(partition))
        self._broadcast_at[partition] = 0
        self._go_on_from(self._fetching.rewind(partition))

    def _turn_outputs(self) -> bool:
        """Read on the output partitions that standbys here follow; True if there is more."""
        replicas = self.node.work.replicas
        followed = replicas.followed()
        if self.node.left is not None or not (followed or replicas.holds()):
            return False
        read = follow(self.log, self.topics, self.node.run, followed)
        self._events.append(e.OutputsFollowed(read.followed, read.at_end and self._broadcast_at_end))
        return not read.at_end

    def _turn_input(self, ready: Collection[TopicPartition] | None) -> bool:
        if ready is None:
            self.truncation.check_inputs(self.now_ms())
        records = 0
        for wanted in self._wanted():
            if ready is not None and self._source[wanted.partition] not in ready:
                continue
            self.truncation.verify_begin(wanted)
            chunk, refused = self._readable(wanted, self._read_input(wanted))
            if chunk.next_offset > wanted.offset:
                self.crashpoint("after-read")
                records += len(chunk)
                run, more = input_of(chunk, refused), self._is_cut(chunk)
                self._events.append(e.InputRead(wanted.partition, wanted.version, run, more))
                if records >= FEW_RECORDS or self._slow:
                    break
        if not self._events:
            return False
        self.input_records += records
        began_ms = self.now_ms()
        self._flush_events()
        self._slow = not 0 <= self.now_ms() - began_ms <= LONG_STEP_MS
        return True

    def _readable(self, wanted: WantedInput, chunk: FetchedRecords) -> ReadableRecords:
        """The records whose schemas are known; the partition waits for those of the others."""
        schemas, partition = self.schemas, wanted.partition
        return ReadableRecords(chunk) if schemas is None else schemas.readable(partition, chunk, self.now_ms())

    def _query_ends(self) -> None:
        """Query the ends of silent inputs: only the log's answer proves that nothing has come; a read may be late."""
        silent = self.node.silent_inputs()
        if silent:
            ends = self.log.high_watermarks([self._source[wanted.partition] for wanted in silent])
            for wanted in silent:
                end = ends[self._source[wanted.partition]]
                self._events.append(e.InputEndRequested(wanted.partition, wanted.version, wanted.offset, end))
            self._flush_events()

    def _wanted(self) -> list[WantedInput]:
        """None while all slots are on their way: what they hold decides who can go on here."""
        if self._fetching.whole:
            return []
        wanted, schemas = self.node.wanted(), self.schemas
        return wanted if schemas is None else [one for one in wanted if not schemas.waits(one.partition)]

    def _is_cut(self, chunk: FetchedRecords) -> bool:
        """True if the read ended because it was large enough, as it does where there is a backlog."""
        return len(chunk) >= self.batch_max_records or size_of(chunk.values) >= LARGE_READ_BYTES

    def _read_input(self, wanted: WantedInput) -> FetchedRecords:
        limit = self.batch_max_records
        if wanted.limit is not None:
            limit = min(limit, wanted.limit - wanted.offset)
        try:
            chunk = self.log.poll(*self._source[wanted.partition], wanted.offset, max_records=limit)
        except (LogTruncated, OffsetOutOfRange) as error:
            raise self.truncation.input_gone(wanted, error) from error
        return chunk if wanted.limit is None else chunk.before(wanted.limit)

    # --- effects ----------------------------------------------------------------------------------------------------

    def dispatch(self, event: e.Event) -> None:
        """Step the node and perform what follows, until nothing follows any more."""
        self._stepped = True
        events: deque[e.Event] = deque([event])
        while events:
            for effect in self.node.step(events.popleft(), self.now_ms()):
                follow = self._perform(effect)
                if follow is not None:
                    events.append(follow)
            events.extend(self._sending.acknowledged())

    def _perform(self, effect: x.Effect) -> e.Event | None:
        match effect:
            case x.WriteControl(value):
                self.crashpoint("before-control")
                self.log.send(self.topics.control, 0, [value])
            case x.WriteHeartbeat(value, group):
                self.heartbeats.send(value, group, self.now_ms())
            case x.WriteBroadcast():
                self._sending.delta(effect)
            case x.WriteOutput():
                return self._sending.output(effect)
            case x.LoadCheckpoint():
                return self._load(effect)
            case x.ReadTail():
                return read_tail(self.log, self.topics, self.node.run, effect, self.truncation)
            case x.SaveCheckpoint():
                return self.saver.save(self._storing.saving(effect))
            case x.RewindBroadcast() | x.ReadBroadcastAgain() | x.RewindShard():
                return self._rewind(effect)
            case x.SaveMerged():
                return self.merger.save(self._joining.saving(effect))
            case x.WriteControlCheckpoint():
                return self.merger.save(self._joining.writing_control_checkpoint(effect, self._shards.positions))
            case x.Leave():
                pass
        return None

    def _rewind(self, effect: x.RewindBroadcast | x.ReadBroadcastAgain | x.RewindShard) -> e.Event | None:
        if isinstance(effect, x.RewindShard):
            return self._shards.rewind(effect)
        if isinstance(effect, x.ReadBroadcastAgain):
            self._broadcast_at[effect.partition] = min(effect.offset, self._broadcast_at[effect.partition])
            return None
        only = effect.partition
        for p in range(len(self._broadcast_at)):
            if only is None or only == p:
                self._broadcast_at[p] = 0
        return self._going_on_from(self._fetching.rewind(only))

    def _go_on_from(self, found: e.MergedLoaded | None) -> None:
        event = self._going_on_from(found)
        if event is not None:
            self.dispatch(event)

    def _going_on_from(self, found: e.MergedLoaded | None) -> e.Event | None:
        """The event for the node with the position at which the broadcast is read on, or that this is not known yet."""
        if found is None:
            awaited = self._fetching.awaited
            return e.MergedAwaited(awaited) if set(awaited) != self.node.merging.awaited else None
        offsets = list(found.offsets)
        for p in (full.partition for full in found.slots):
            if found.rewound:
                offsets[p] = self.truncation.resumed_at(p, offsets[p])
            self._broadcast_at[p] = offsets[p]
        return replace(found, offsets=offsets)

    def _fetch(self, work: Callable[[], Fetched]) -> Fetched | None:
        done = self.loader.save(work)
        self.loading += done is None
        assert done is None or isinstance(done, Fetched)
        return done

    def _load(self, effect: x.LoadCheckpoint) -> e.Event | None:
        if not effect.names:
            return e.CheckpointLoaded(effect.partition, effect.version, None, None)
        done = self.loader.save(self._storing.loading(effect))
        self.loading += done is None
        assert not isinstance(done, Fetched)
        return done
