"""The driver of a transactional node: what the state machine wants, on a log. One turn at a time; knows no thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from msgspec.structs import replace

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.log.contract import Log, OffsetOutOfRange, TopicPartition
from nodes.machine import messages as m
from nodes.machine.ownership.claims import Claiming
from nodes.runtime.heartbeat_reader import HeartbeatReader
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from nodes.transactions.checkpoints.commit_buffer import CommitBuffer
from nodes.transactions.orphaned_work import commits_from, ids_from, last_reply
from nodes.transactions.standbys import StandingBy
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, control_topic
from nodes.transactions.trimming import Trimming, trimmed_away
from transactional import events as e
from transactional.epochs.appends import Append, AppendCalls, AppendCommit, AppendEpochs
from transactional.epochs.sequencer import EpochConfig, first_needed
from transactional.execution.crashing import Apart, Trying
from transactional.node import TransactionNode
from transactional.operators import Program
from transactional.state.snapshots import LedgerState
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store
from transactional.tally import Tally

logger = logging.getLogger(__name__)

CONTROL_INTERVAL_MS = 20
CONTROL_BATCH = 1000
REQUESTS_BATCH, REQUESTS_BYTES = 1000, 1 << 20
"""Of one read: what was read is held, as objects, until it is cut."""


class TransactionDriver:
    """One node of one job. ``clock_ms`` only has to run; ``wall_ms`` is since 1970, and what ``ctx.now`` comes from."""

    def __init__(
        self,
        program: Program,
        topics: TransactionTopics,
        log: Log,
        claiming: Claiming,
        checkpoints: TransactionCheckpoints,
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        *,
        sequencers: int,
        config: EpochConfig | None = None,
        heartbeat_interval_ms: int = 50,
        new_store: Callable[[], Store | SpillingStore] = Store,
        replicas: int = 1,
        trimming: Trimming | None = None,
        apart: Apart | None = None,
    ) -> None:
        self._new_store = new_store
        self.topics = topics
        self.log = log
        self.claiming = claiming
        self.checkpoints = checkpoints
        self.clock_ms = clock_ms
        self.wall_ms = wall_ms
        self.sequencers = sequencers
        self.program = program
        self.config = config
        self.tally = Tally()
        self.promotions = 0
        self._apart = apart
        self._figures: dict[str, float] = {}
        self.begun = 0
        """Up to this epoch this node knows nothing."""
        self.node = TransactionNode(program, sequencers, config, new_store=new_store, tally=self.tally)
        self.standing = StandingBy(log, topics, claiming, replicas, clock_ms, wall_ms)
        self.trimming = trimming
        self._control, self._epochs = TopicPartition(topics.control, 0), TopicPartition(topics.epochs, 0)
        self._calls = [TopicPartition(topics.calls, number) for number in range(program.partitions)]
        self._requests = [TopicPartition(topics.requests, number) for number in range(sequencers)]
        self._has_begun = False
        self._stood_with: list[str] | None = None  # checkpoints that were known when this node had to begin anew
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._control_at = 0
        self._heartbeats = HeartbeatReader(log, topics.heartbeats)
        self._heartbeat_number = 0
        self._beat_ms: int | None = None
        self._looked_ms: int | None = None
        self._commit_buffer = CommitBuffer()

    def turn(self, ready: Collection[TopicPartition] | None = None) -> bool:
        """Look at these topics, None: at every one, and at the time; False if there was nothing to do."""
        try:
            with self.log.batched():
                moved, only_own = self._turn(ready)
            self._afterwards(only_own=only_own)
            return moved
        except OffsetOutOfRange as error:
            self._begin_again(error)
            return True

    def _turn(self, ready: Collection[TopicPartition] | None) -> tuple[bool, bool]:
        """Whether there was something to do; whether it was only to read what this node has said itself."""
        if not self._has_begun:
            self._begin()
        self._beat()
        # Else every turn until the next look would find it ready, and wait for nothing.
        moved = self._turn_control(at_once=ready is not None and self._control in ready)
        epochs_moved = False
        if ready is None or self._epochs in ready:
            changes = self.node.ledger.changes
            epochs_moved = self._turn_epochs()
            known = self.node.ledger.changes == changes and not moved and not self.node.standing_by
            if known and ready is not None and len(ready) == 1:
                return epochs_moved, True
        for partition in sorted(self.node.partitions):
            if ready is None or self._calls[partition] in ready:
                moved |= self._turn_calls(partition)
        moved |= self._turn_all_requests(ready, epochs_moved=epochs_moved)
        if self.node.standing_by:
            self.standing.turn(self.node, ready)
        moved |= self._tell(e.Ticked()) or epochs_moved
        if self.node.standing_by and self.standing.stand_in(self.node):
            moved |= self._tell(e.Ticked())
        return moved, False

    def _turn_all_requests(self, ready: Collection[TopicPartition] | None, *, epochs_moved: bool) -> bool:
        """Also those that nobody waited for, where they may be cut now, or many wait.

        A node that runs all alone ends an epoch in a turn, and cuts the next one.
        """
        moved = False
        alone = len(self.node.partitions) == self.node.ledger.partitions
        for number, sequencer in sorted(self.node.sequencers.items()):
            wanted = epochs_moved and (alone or sequencer.wants_requests or sequencer.is_behind)
            if ready is None or wanted or self._requests[number] in ready:
                moved |= self._turn_requests(number)
        return moved

    def _afterwards(self, *, only_own: bool) -> None:
        """Work that no node waits for, when all has left that others wait for."""
        self.log.poll_acks()
        commits = self._commit_buffer.due(self.clock_ms(), at_once=False)
        said = [] if only_own else self.checkpoints.turn(self.node.owned_partitions(), self.clock_ms())
        if commits or said:
            with self.log.batched():
                self._write_commits(commits)
                if said:
                    self.log.send(self.topics.control, 0, said)
        if self.trimming is not None and not only_own:
            self.trimming.turn(self.node, self.claiming.owned, self._control_at, self.clock_ms())

    def report_figures(self, figures: Mapping[str, float]) -> None:
        """Heartbeats tell these figures besides, by name."""
        self._figures.update(figures)

    def leave(self) -> None:
        """Give everything up, and wait until all that was written is on the log."""
        self._write_commits(self._commit_buffer.due(self.clock_ms(), at_once=True))
        self.log.send(self.topics.control, 0, self.claiming.leave())
        self.log.poll_acks(wait=True)

    def waits_for(self) -> dict[TopicPartition, int]:
        """The positions at which something new would concern this node."""
        found = {self._control: self._control_at, self._epochs: self.node.ledger.position}
        for number, partition in self.node.partitions.items():
            found[self._calls[number]] = partition.position
        for number, sequencer in self.node.sequencers.items():
            if sequencer.wants_requests:
                found[self._requests[number]] = sequencer.position
        return found | self.standing.waits_for(self.node) if self.node.standing_by else found

    @property
    def is_waiting(self) -> bool:
        """Whether requests wait for the time at which they are cut."""
        return any(sequencer.waits_for_time for sequencer in self.node.sequencers.values())

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in work or to be written: only others can bring something, or much time."""
        ledger = self.node.ledger
        return self.claiming.joined and not ledger.is_open(ledger.done + 1) and self._commit_buffer.is_empty

    @property
    def watches(self) -> bool:
        """Whether an owner may be late soon for which this node stands by."""
        return bool(self.node.standing_by) and self.standing.watches(self.node)

    # --- beginning --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read the control topic, and begin the ledger at the oldest checkpoint that may be needed."""
        self._has_begun = True
        self._read_control()
        begin = self.checkpoints.ledger()
        if begin is None:
            self.checkpoints.distrust()
        self._start(begin)

    def _begin_again(self, error: OffsetOutOfRange) -> None:
        """In place, with the checkpoints that there are by now: this node stood still, and topics were trimmed.

        Raises ``TopicsTrimmed`` where these are the same as the last time, and ``error`` where nothing was trimmed.
        """
        topics, places = self.topics, range(self.node.ledger.partitions)
        if self._has_begun and self._control_at < self.log.start_offset(topics.control, 0):
            logger.info("node %s takes a checkpoint of the control topic over: %s", self.claiming.node, error)
            self._read_control()  # what it works on follows the claims that it missed, in the next turn
            return
        starts = [self.log.start_offset(topics.epochs, 0)]
        starts += [self.log.start_offset(topics.calls, p) for p in places]
        starts += [self.log.start_offset(topics.requests, s) for s in range(self.sequencers)]
        if not any(starts):
            raise error
        logger.info("node %s begins anew: %s", self.claiming.node, error)
        self._read_control()
        kept = [saved.name for p in places for saved in self.claiming.ownership.checkpoints(self.sequencers + p)]
        if kept == self._stood_with:
            raise trimmed_away(topics.job, error) from error
        self._stood_with = kept
        self._has_begun = False

    def _read_control(self) -> None:
        def take(values: list[bytes]) -> None:
            self.claiming.control(values, False, self.clock_ms())

        topic, begin = control_topic(self.topics), self.claiming.restore
        self._control_at = topic.read_on(self.log, self._control_at, lambda state, _: begin(state), take)

    def _start(self, begin: LedgerState | None) -> None:
        self.begun = 0 if begin is None else begin.done
        trying, end = Trying(self.claiming.node, self._apart), self.log.end_offset(self.topics.epochs, 0)
        given = self.program, self.sequencers, self.config, begin, self._new_store, self.tally
        self.node = TransactionNode(*given, trying, end)

    def _take(self, partition: int) -> bool:
        """Begin with the newest intact checkpoint; False if none is, and the ledger has to be read from its start."""
        self.standing.begins(partition)
        replied = last_reply(self.log, self.topics, partition)
        calls_start = self.log.start_offset(self.topics.calls, partition)
        for begin in self.checkpoints.newest(partition, self.begun):
            state = begin.state
            if state.calls_offset < calls_start:
                if not self._is_kept(partition, begin.chain[-1].name):
                    continue
                # Another owner had read further by that epoch: what is gone belongs to it, or to earlier ones.
                state = replace(state, calls_offset=calls_start)
            commits = commits_from(self.log, self.topics, partition, state.commits_offset)
            try:
                self._tell(e.PartitionTaken(partition, replied, state, commits, begin.rests_on))
            except (CheckpointDamaged, CheckpointMissing) as error:
                self.checkpoints.say_damaged(error)
                continue
            self.checkpoints.begins(partition, begin)
            return True
        if self.begun:
            return False
        if calls_start:
            place = f"{self.topics.calls}[{partition}] begins at {calls_start}"
            raise OffsetOutOfRange(f"{place}, and no checkpoint of the partition can be begun with")
        self._tell(e.PartitionTaken(partition, replied, None, commits_from(self.log, self.topics, partition, 0)))
        self.checkpoints.begins(partition, None)
        return True

    def _is_kept(self, partition: int, name: str) -> bool:
        """Whether the checkpoint is still one of those that the topics are kept for."""
        self._read_control()
        return name in [saved.name for saved in self.claiming.ownership.checkpoints(self.sequencers + partition)]

    def _logged(self, partition: int, end: int) -> None:
        self.node.hear(e.CommitsLogged(partition, end))

    # --- others -----------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        now = self.clock_ms()
        if self._beat_ms is None or not 0 <= now - self._beat_ms < self._heartbeat_interval_ms:
            self._beat_ms = now
            self._heartbeat_number += 1
            beat = m.Heartbeat(FIRST_INCARNATION, self.claiming.node, self._heartbeat_number, stats=self._figures)
            self.log.send(self.topics.heartbeats, 0, [m.encode(beat)])

    def _turn_control(self, *, at_once: bool) -> bool:
        now = self.clock_ms()
        if not at_once and self._looked_ms is not None and 0 <= now - self._looked_ms < CONTROL_INTERVAL_MS:
            return False
        self._looked_ms = now
        self.claiming.heard(self._heartbeats.read()[0], now)
        # Where the node has to know that nothing more is there, the log is asked how far it goes.
        asked = self.claiming.needs_end(now)
        read = self.log.read if asked else self.log.poll
        chunk = read(self.topics.control, 0, self._control_at, max_records=CONTROL_BATCH)
        self._control_at = chunk.next_offset
        at_end = len(chunk.values) < CONTROL_BATCH and (asked or not self.claiming.needs_end(now))
        written = self.claiming.control(list(chunk.values), at_end, now)
        if written:
            self.log.send(self.topics.control, 0, written)
        self.begun = max(self.begun, self.checkpoints.first_epoch_needed())
        self.node.hear(e.EpochsCovered(self.begun + 1))
        self._follow_claims()
        return bool(chunk.values or written)

    def _follow_claims(self) -> None:
        owned, standing_by = set(self.claiming.owned), self.standing.units(self.node)
        for unit in range(self.sequencers + self.node.ledger.partitions):
            number, wanted = unit - self.sequencers, unit in owned or unit in standing_by
            here = unit in self.node.sequencers if unit < self.sequencers else number in self.node.partitions
            if wanted and unit not in owned:
                self.node.hear(e.StandbyBegun(unit))  # first, so that it writes nothing
            elif here and unit in owned and unit in self.node.standing_by:
                self._promote(unit)
            if wanted and not here and not self._begin_unit(unit):
                self.checkpoints.distrust()
                self._start(None)
                return  # all that this node owns is taken again in the next turn
            if here and not wanted:
                self._tell(e.SequencerLost(unit) if unit < self.sequencers else e.PartitionLost(number))

    def _begin_unit(self, unit: int) -> bool:
        """False if the ledger has to be read from its start."""
        if unit >= self.sequencers:
            return self._take(unit - self.sequencers)
        self._read_epochs_to_end()
        needed, window = first_needed(self.node.ledger, unit), self.node.config.id_window
        if self.log.start_offset(self.topics.requests, unit) <= needed:  # else epochs have ended: at the next look
            among, log = self.sequencers, self.log
            start = ids_from(log, self.topics, self.program, unit, sequencers=among, needed=needed, id_window=window)
            self._tell(e.SequencerTaken(unit, start))
        return True

    def _promote(self, unit: int) -> None:
        """A standby is the owner now, in place."""
        self.promotions += 1
        self.node.hear(e.StandbyPromoted(unit))
        self._tell(e.Ticked())  # what it held back is sent before a snapshot may count on it
        if unit >= self.sequencers:
            self.checkpoints.promoted(unit - self.sequencers)

    # --- transactions -----------------------------------------------------------------------------------------------

    def _read_epochs_to_end(self) -> None:
        end = self.log.end_offset(self.topics.epochs, 0)
        while self.node.ledger.position < end:
            chunk = self.log.read(self.topics.epochs, 0, self.node.ledger.position)
            self._tell(e.EpochsRead(list(chunk.values), chunk.next_offset))

    def _turn_epochs(self) -> bool:
        chunk = self.log.poll(self.topics.epochs, 0, self.node.ledger.position)
        if chunk.values:
            self.node.hear(e.EpochsRead(list(chunk.values), chunk.next_offset))
        return bool(chunk.values)

    def _turn_calls(self, partition: int) -> bool:
        chunk = self.log.poll(self.topics.calls, partition, self.node.partitions[partition].position)
        if chunk.values:
            self.node.hear(e.CallsRead(partition, chunk.offsets.tolist(), list(chunk.values)))
        return bool(chunk.values)

    def _turn_requests(self, sequencer: int) -> bool:
        owned = self.node.sequencers[sequencer]
        if not owned.has_room:
            return False
        where = self.topics.requests, sequencer, owned.position
        chunk = self.log.poll(*where, max_records=REQUESTS_BATCH, max_bytes=REQUESTS_BYTES)
        if chunk.values:
            self.node.hear(e.RequestsRead(sequencer, chunk.offsets.tolist(), list(chunk.values), chunk.next_offset))
        return bool(chunk.values)

    def _tell(self, event: e.Event) -> bool:
        """Step the node and send what follows, in one batch for each partition of the log."""
        appends = self.node.step(event, self.wall_ms())
        batches: dict[tuple[str, int], list[bytes]] = {}
        for append in appends:
            batches.setdefault(self._place(append), []).append(append.value)
        for (topic, partition), values in batches.items():
            if topic == self.topics.replies:
                self.log.send(topic, partition, values, done=self.checkpoints.replies_sent(partition))
            elif topic == self.topics.commits:
                self._commit_buffer.add(partition, values, self.clock_ms())
            else:
                self.log.send(topic, partition, values)
        return bool(appends)

    def _write_commits(self, by_partition: Mapping[int, list[bytes]]) -> None:
        for partition, values in by_partition.items():
            self.log.send(self.topics.commits, partition, values, done=partial(self._logged, partition))

    def _place(self, append: Append) -> tuple[str, int]:
        match append:
            case AppendEpochs():
                return self.topics.epochs, 0
            case AppendCalls(partition):
                return self.topics.calls, partition
            case AppendCommit(partition):
                return self.topics.commits, partition
            case _:
                return self.topics.replies, append.partition
