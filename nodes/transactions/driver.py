"""The driver of a transactional node: what the state machine wants, on a log. One turn at a time; knows no thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.log.contract import Log, OffsetOutOfRange, TopicPartition
from nodes.machine import messages as m
from nodes.machine.ownership.claims import Claiming
from nodes.runtime.control_reader import ControlReader
from nodes.runtime.heartbeat_topics import HeartbeatTopics
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from nodes.transactions.checkpoints.ledger_load import LedgerLoad, LoadedLedger
from nodes.transactions.layouts.batch_sizes import BatchSizes
from nodes.transactions.layouts.portions import BucketSizes, KnownState, bucket_sizes
from nodes.transactions.layouts.proposing import LayoutProposer
from nodes.transactions.steps import Clocks, Steps, TransactionJob
from nodes.transactions.topics import FIRST_INCARNATION, control_topic
from nodes.transactions.trimming import Trimming, trimmed_away
from nodes.transactions.units.following import Loaded, Units
from nodes.transactions.units.standbys import Standbys
from nodes.transactions.upgrades.upgrading import Upgrading
from transactional import events as e
from transactional.execution.crashing import Apart
from transactional.layout import Layout
from transactional.node import TransactionNode
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

logger = logging.getLogger(__name__)

REQUESTS_BATCH, REQUESTS_BYTES = 1000, 1 << 20
"""Of one read: what was read is held, as objects, until it is cut."""
FOLLOWED_BATCH = 200
"""Of one read where another node works on it: the epochs wait for this node's own partitions meanwhile."""


class TransactionDriver:
    """One node of one job, put together of its parts (``composition.py``)."""

    def __init__(
        self,
        job: TransactionJob,
        log: Log,
        clocks: Clocks,
        claiming: Claiming,
        checkpoints: TransactionCheckpoints,
        trimming: Trimming,
        *,
        heartbeat_interval_ms: int = 50,
        replicas: int = 1,
        handover_timeout_ms: int = 0,
        loader: Saver[Loaded] | None = None,
        ledger_loader: Saver[LoadedLedger] | None = None,
        apart: Apart | None = None,
        upgrading: Upgrading | None = None,
        disk_bytes: Callable[[Store | SpillingStore], int] = lambda store: 0,
    ) -> None:
        topics = job.topics
        self.job = job
        self.log = log
        self.claiming = claiming
        self.checkpoints = checkpoints
        self.trimming = trimming
        self.upgrading = upgrading
        self.steps = Steps(job, log, clocks, checkpoints, claiming.node, apart)
        self.standbys = Standbys(log, topics, claiming, replicas, clocks.running_ms, clocks.wall_ms)
        load = DirectSaver[Loaded]() if loader is None else loader
        self.units = Units(job, log, self.steps, claiming, checkpoints, self.standbys, load, self._read_control)
        self.ledger_load = LedgerLoad(checkpoints, DirectSaver() if ledger_loader is None else ledger_loader)
        self.control = ControlReader(log, topics.control)
        portion_bytes = job.config.portion_bytes
        self.proposer = LayoutProposer(log, topics, claiming, checkpoints, portion_bytes, self._bucket_sizes)
        self._disk_bytes = disk_bytes
        self._batch_sizes = BatchSizes(job.config.copy_bytes, job.config.copy_window_bytes)
        failure_timeout_ms = claiming.detector.failure_timeout_ms
        self._heartbeat_topics = HeartbeatTopics(
            log, claiming.node, topics.heartbeats, failure_timeout_ms=failure_timeout_ms
        )
        self.heartbeats = HeartbeatWriter(self._heartbeat_topics, claiming.node, heartbeat_interval_ms)
        self.has_begun = False
        self._clocks = clocks
        self._handover_timeout_ms = handover_timeout_ms
        self._leaving_since_ms: int | None = None
        self._epochs = TopicPartition(topics.epochs, 0)
        self._calls: dict[int, TopicPartition] = {}
        self._requests = [TopicPartition(topics.requests, number) for number in range(job.sequencers)]
        self._restarted_with: list[str] | None = None  # checkpoints that were known when this node had to begin anew

    @property
    def node(self) -> TransactionNode:
        """The state machine of this incarnation: to be read, and stepped by ``steps`` alone."""
        return self.steps.node

    def turn(self, ready: Collection[TopicPartition] | None = None) -> bool:
        """Poll these topics, None: every one, and the clock; False if there was nothing to do."""
        try:
            with self.log.batched():
                moved, only_own = self._turn(ready)
            self._afterwards(only_own=only_own or self.ledger_load.is_loading)
            return moved
        except OffsetOutOfRange as error:
            self._begin_again(error)
            return True

    def _turn(self, ready: Collection[TopicPartition] | None) -> tuple[bool, bool]:
        """Whether there was something to do; whether it was only to read this node's own records."""
        if not self.has_begun:
            self._begin()
        now_ms, node = self._clocks.running_ms(), self.node
        self.heartbeats.turn(now_ms)
        # Records that wake it are read in this turn: else every turn until the next poll would wait for nothing.
        moved = self._turn_control(now_ms, wanted=ready is not None and self.control.where in ready)
        if self.ledger_load.is_loading:
            return self._begins(self.ledger_load.finished()) or moved, False
        moved |= self.units.arrive()
        node, epochs_moved = self.node, False
        if ready is None or self._epochs in ready:
            changes = node.ledger.changes
            epochs_moved = self._turn_epochs()
            known = node.ledger.changes == changes and not moved and not node.standbys
            if known and ready is not None and len(ready) == 1:
                return epochs_moved, True
        for partition in sorted(node.partitions):
            if ready is None or self._calls_of(partition) in ready:
                moved |= self._turn_calls(partition)
        moved |= self._turn_all_requests(ready, epochs_moved=epochs_moved)
        if node.standbys:
            self.standbys.turn(node, ready)
        moved |= self.steps.step(e.Ticked()) or epochs_moved
        if node.standbys and self.standbys.activate_late(node):
            moved |= self.steps.step(e.Ticked())
        return moved, False

    def _turn_all_requests(self, ready: Collection[TopicPartition] | None, *, epochs_moved: bool) -> bool:
        """Also those that no partition waited for, where they may be cut now, or many wait.

        A node that runs all alone ends an epoch in a turn, and cuts the next one.
        """
        moved = False
        alone = len(self.node.partitions) >= self.node.ledger.partitions(self.node.ledger.done + 1)
        for number, sequencer in sorted(self.node.sequencers.items()):
            wanted = epochs_moved and (alone or sequencer.wants_requests or sequencer.is_behind)
            if ready is None or wanted or self._requests[number] in ready:
                moved |= self._turn_requests(number)
        return moved

    def _afterwards(self, *, only_own: bool) -> None:
        """Work that no node waits for, when all has left that others wait for."""
        self.log.poll_acks()
        now_ms, node = self._clocks.running_ms(), self.node
        commits = self.steps.commits.due(now_ms, at_once=False)
        notices = [] if only_own else self.checkpoints.turn(node.owned_partitions(), now_ms)
        notices += [] if only_own else self.proposer.turn(node.ledger, now_ms)
        if commits or notices:
            with self.log.batched():
                self.steps.send_commits(commits)
                if notices:
                    self.log.send(*self.control.where, notices)
        if not only_own:
            self.trimming.turn(node, self.claiming.owned, self.control.position, now_ms)
            self._pace_copies(now_ms)

    def _bucket_sizes(self, present: Layout, target: Layout) -> BucketSizes | None:
        states = {
            number: KnownState(each.store.tables, self._disk_bytes(each.store))
            for number, each in self.node.partitions.items()
        }
        return bucket_sizes(present, target, self.job.program.operators, states)

    def _pace_copies(self, now_ms: int) -> None:
        ledger = self.node.ledger
        batch_bytes = self._batch_sizes.turn(ledger, now_ms)
        if ledger.copies.batch_bytes != batch_bytes:
            self.steps.receive(e.CopiesPaced(batch_bytes))

    def report_figures(self, figures: Mapping[str, float], instead_of: tuple[str, ...] = ()) -> None:
        """Heartbeats report these figures besides, by name; others that begin with ``instead_of`` no longer."""
        kept = {name: each for name, each in self.heartbeats.figures.items() if not name.startswith(instead_of)}
        self.heartbeats.figures = {**kept, **figures}

    def begin_leaving(self) -> None:
        """Offer everything to other nodes, and go on with it until ``may_leave``. A second time changes nothing."""
        if self._leaving_since_ms is None:
            self._leaving_since_ms = self._clocks.running_ms()
            if self._handover_timeout_ms:
                self.log.send(*self.control.where, self.claiming.begin_leaving())

    @property
    def may_leave(self) -> bool:
        """Whether a leaving node's work is in other hands, or nobody can take it, or the time for that is over."""
        since_ms, now_ms = self._leaving_since_ms, self._clocks.running_ms()
        if since_ms is None:
            return False
        return now_ms - since_ms >= self._handover_timeout_ms or self.claiming.has_handed_over(now_ms)

    def leave(self) -> None:
        """Give everything up, and wait until all that was written is on the log."""
        self.steps.send_commits(self.steps.commits.due(self._clocks.running_ms(), at_once=True))
        self.log.send(*self.control.where, self.claiming.leave())
        self.log.poll_acks(wait=True)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def waits_for(self) -> dict[TopicPartition, int]:
        """The positions at which something new would concern this node."""
        found = {self.control.where: self.control.position}
        if self.ledger_load.is_loading:
            return found
        found[self._epochs] = self.node.ledger.position
        for number, partition in self.node.partitions.items():
            found[self._calls_of(number)] = partition.position
        for number, sequencer in self.node.sequencers.items():
            if sequencer.wants_requests:
                found[self._requests[number]] = sequencer.position
        return found | self.standbys.waits_for(self.node) if self.node.standbys else found

    @property
    def is_waiting(self) -> bool:
        """Whether requests wait for the time at which they are cut."""
        return any(sequencer.waits_for_time for sequencer in self.node.sequencers.values())

    @property
    def is_sending(self) -> bool:
        """Whether a partition here has more to send of what moves away from it."""
        return any(partition.is_sending for partition in self.node.partitions.values())

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in work or to be written: only others can bring something, or much time."""
        ledger = self.node.ledger
        return self.claiming.joined and not ledger.is_open(ledger.done + 1) and self.steps.commits.is_empty

    @property
    def watches(self) -> bool:
        """Whether an owner whose standby this node is may be late soon, or a checkpoint may have been loaded."""
        if self.ledger_load.is_loading or self.units.is_loading:
            return True
        return bool(self.node.standbys) and self.standbys.watches(self.node)

    def loading_owned(self) -> list[int]:
        """The state partitions that no node processes until this one has loaded what they begin with."""
        sequencers = self.job.sequencers
        if self.ledger_load.is_loading:
            return [unit - sequencers for unit in self.claiming.owned if unit >= sequencers]
        return self.units.loading_owned()

    # --- beginning --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read the control topic, and begin the ledger at the oldest checkpoint that may be needed."""
        self.has_begun = True
        self._read_control()
        if self.upgrading is not None:
            self.upgrading.begins()
        if not self._begins(self.ledger_load.begin()):
            self.units.begin(None)  # it works on nothing until the ledger is there

    def _begins(self, loaded: LoadedLedger | None) -> bool:
        """False if there is no ledger yet."""
        if loaded is None:
            return False
        if loaded.state is None:
            self.checkpoints.distrust()
        self.units.begin(loaded.state)
        self.control.reread_end()  # now it may join, and take its units
        return True

    def _begin_again(self, error: OffsetOutOfRange) -> None:
        """In place, with the checkpoints that there are by now: this node was paused, and topics were trimmed.

        Raises ``TopicsTrimmed`` where these are the same as the last time, and ``error`` where nothing was trimmed.
        """
        topics, places = self.job.topics, range(self.claiming.ownership.partitions - self.job.sequencers)
        if self.has_begun and self.control.position < self.log.start_offset(*self.control.where):
            logger.info("node %s takes a checkpoint of the control topic over: %s", self.claiming.node, error)
            self._read_control()  # what it works on follows the claims that it missed, in the next turn
            return
        starts = [self.log.start_offset(topics.epochs, 0)]
        starts += [self.log.start_offset(topics.calls, p) for p in places]
        starts += [self.log.start_offset(topics.requests, s) for s in range(self.job.sequencers)]
        if not any(starts):
            raise error
        logger.info("node %s begins anew: %s", self.claiming.node, error)
        self._read_control()
        kept = [saved.name for p in places for saved in self.claiming.ownership.checkpoints(self.job.sequencers + p)]
        if kept == self._restarted_with:
            raise trimmed_away(topics.job, error) from error
        self._restarted_with = kept
        self.has_begun = False

    def _read_control(self) -> None:
        def take(values: list[bytes]) -> None:
            self.claiming.control(values, False, self._clocks.running_ms())

        topic, begin = control_topic(self.job.topics), self.claiming.restore
        self.control.position = topic.read_on(self.log, self.control.position, lambda state, _: begin(state), take)

    # --- topics -----------------------------------------------------------------------------------------------------

    def _turn_control(self, now_ms: int, *, wanted: bool) -> bool:
        read = self.control.read(now_ms, lambda: self.claiming.needs_end(now_ms), wanted=wanted)
        if read is None:
            return False
        self.claiming.receive_heartbeats(self._heartbeat_topics.read(None, now_ms)[0], now_ms)
        if self.ledger_load.is_loading:
            self.claiming.control(list(read.values), False, now_ms)  # it takes no part until it could work
            return bool(read.values)
        known = read.at_end and (read.end_queried or not self.claiming.needs_end(now_ms))
        if read.at_end and not known:
            self.control.reread_end()
        written = self.claiming.control(list(read.values), known, now_ms, self.units.abreast())
        if known and self.upgrading is not None:
            written += self.upgrading.turn(self.node.ledger, now_ms)
        if written:
            self.log.send(*self.control.where, written)
        self.units.forget_covered()
        self.units.reconcile()
        return bool(read.values or written)

    def _turn_epochs(self) -> bool:
        chunk = self.log.poll(*self._epochs, self.node.ledger.position)
        if chunk.values:
            self.steps.receive(e.EpochsRead(list(chunk.values), chunk.next_offset))
        return bool(chunk.values)

    def _calls_of(self, partition: int) -> TopicPartition:
        where = self._calls.get(partition)
        if where is None:
            where = self._calls[partition] = TopicPartition(self.job.topics.calls, partition)
        return where

    def _turn_calls(self, partition: int) -> bool:
        chunk = self.log.poll(*self._calls_of(partition), self.node.partitions[partition].position)
        if chunk.values:
            self.steps.receive(e.CallsRead(partition, chunk.offsets.tolist(), list(chunk.values)))
        return bool(chunk.values)

    def _turn_requests(self, sequencer: int) -> bool:
        owned = self.node.sequencers[sequencer]
        if not owned.has_room:
            return False
        where, follows = self._requests[sequencer], sequencer in self.node.standbys
        most = FOLLOWED_BATCH if follows else REQUESTS_BATCH
        chunk = self.log.poll(*where, owned.position, max_records=most, max_bytes=REQUESTS_BYTES)
        if chunk.values:
            self.steps.receive(e.RequestsRead(sequencer, chunk.offsets.tolist(), list(chunk.values), chunk.next_offset))
        return bool(chunk.values)


class HeartbeatWriter:
    """Heartbeats of one node. ``figures`` are reported with each, by name."""

    def __init__(self, topics: HeartbeatTopics, node: str, interval_ms: int) -> None:
        self.figures: dict[str, float] = {}
        self._topics = topics
        self._node = node
        self._interval_ms = interval_ms
        self._number = 0
        self._last_heartbeat_ms: int | None = None

    def turn(self, now_ms: int) -> None:
        """Write one if it is due."""
        if self._last_heartbeat_ms is None or not 0 <= now_ms - self._last_heartbeat_ms < self._interval_ms:
            self._last_heartbeat_ms = now_ms
            self._number += 1
            heartbeat = m.Heartbeat(FIRST_INCARNATION, self._node, self._number, stats=self.figures)
            self._topics.send(m.encode(heartbeat), None, now_ms)
