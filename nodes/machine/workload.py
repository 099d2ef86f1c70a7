"""The workload of a node: its runners, and what they are to do as input, slots and acknowledgements come in.

Two rules for this file: results leave before the delta that reports their windows as answered; nothing here knows why
a partition is this node's (that is ``node.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

from nodes.machine import events as e
from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.broadcast import window_retention as keeping
from nodes.machine.broadcast.shards import ShardSlots
from nodes.machine.broadcast.slot_recovery import SlotRecovery
from nodes.machine.broadcast.uncheckpointed import Uncheckpointed
from nodes.machine.config import JobRun, NodeConfig, WantedInput, broadcast_interval_ms
from nodes.machine.crashing_records import Accusing, Trials
from nodes.machine.effects import Effect, LoadCheckpoint, ReadTail, RewindBroadcast, WriteControl
from nodes.machine.idle_partitions import IdlePartitions
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.runner import Runner
from nodes.machine.standby.replicas import Replicas
from wcrdt.codec import DecodeError
from wcrdt.replica.replica import Replica
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

WINDOWS_LEFT = "windows_left"
"""The name of ``Workload.windows_left`` in a node's heartbeats."""
SLOW_RECORDS = "slow_records"
PID = "pid"
"""The name of the process id in them."""


class Workload:
    """The partitions that this node processes. ``effects`` is the list that the current step fills."""

    def __init__(self, config: NodeConfig, run: JobRun, replica: Replica, ownership: Ownership, trials: Trials) -> None:
        self.config = config
        self.run = run
        self._layout = run.layout
        self.job = run.job
        self.replica = replica
        self.ownership = ownership
        self.broadcast_interval_ms = broadcast_interval_ms(config, run)
        self.runners: dict[int, Runner] = {}
        self.idleness = IdlePartitions(self)
        self.replicas = Replicas(self)
        self.slot_recovery = SlotRecovery(self)
        self.accusing = Accusing(self, trials)
        self.shards = ShardSlots(self)
        self.uncheckpointed = Uncheckpointed(ownership, config.max_uncheckpointed_bytes)
        self.effects: list[Effect] = []
        self.now_ms = 0
        self.stopping = False
        self.unusual_time = ""
        """A warning: the first event time here that is probably in another unit than declared."""
        self._suppressed = 0
        self._emitted = 0

    # --- runners ----------------------------------------------------------------------------------------------------

    def take(self, partition: int, version: int) -> None:
        """The partition is this node's from now on."""
        runner = self.runners.get(partition)
        if runner is not None and runner.standby is not None:
            self.replicas.promote(runner, version)
            return
        self.drop(partition)
        self.load(self.fresh(partition, version))

    def drop(self, partition: int) -> None:
        """It is not, or its work is void."""
        runner = self.runners.pop(partition, None)
        if runner is not None:
            runner.end()
            self._suppressed += runner.suppressed
            self._emitted += runner.emitted

    def lose(self, partition: int) -> None:
        """The partition is another's, or free; a running runner may go on as a standby."""
        runner = self.runners.get(partition)
        if runner is not None and runner.standby is None and not self.replicas.demote(runner):
            self.drop(partition)

    def runner(self, partition: int, key: int) -> Runner | None:
        """The runner, unless the event belongs to an earlier incarnation of it."""
        runner = self.runners.get(partition)
        return runner if runner is not None and runner.key == key else None

    def running(self) -> list[Runner]:
        return [runner for _, runner in sorted(self.runners.items()) if runner.is_running]

    def _each(self) -> Iterator[Runner]:
        """Those that run, one after the other; what is done for one may end another."""
        for partition in sorted(self.runners):
            runner = self.runners.get(partition)
            if runner is not None and runner.is_running:
                yield runner

    def owned(self) -> list[Runner]:
        """Those under a claim of this node."""
        return [runner for runner in self.running() if runner.standby is None]

    def windows_left(self) -> int:
        """Windows that have not been answered yet in partitions of this node whose input has ended."""
        return sum(runner.task.windows.left() for runner in self.owned() if runner.task.records.ended)

    def fresh(self, partition: int, version: int, key: int | None = None) -> Runner:
        """A runner that has nothing yet."""
        run = self.run
        return Runner(
            self.job,
            run.incarnation,
            partition,
            version,
            self.replica,
            run.output_partitions,
            run.start_offsets[partition],
            key,
            run.upstream,
            run.origin,
            run.live_guard_ms,
            self.config.parts,
            self._layout,
            self.shards.made(),
        )

    def load(self, runner: Runner) -> None:
        """Let it begin with the newest checkpoint."""
        self.runners[runner.partition] = runner
        self.effects.append(LoadCheckpoint(runner.partition, runner.key, self._known(runner.partition)))

    def _known(self, partition: int) -> list[str]:
        names = [saved.name for saved in self.ownership.checkpoints(partition)]
        return names if self.run.continued is None else [*names, self.run.continued.checkpoints[partition]]

    def restart(self, runner: Runner) -> None:
        """Make the partition's work again from its checkpoint; what is on the log already stays there once."""
        self.drop(runner.partition)
        fresh = self.fresh(runner.partition, runner.version, runner.key)
        fresh.ticket = fresh.acknowledged = runner.ticket
        if runner.standby is not None:
            fresh.become_standby(self.replicas.another(runner.standby))
        self.load(fresh)

    # --- what happens ----------------------------------------------------------------------------------------------

    def handle(self, event: e.Event) -> None:
        """Raises ``UserFunctionError``, and ``DecodeError`` for a checkpoint that is none of this job's."""
        match event:
            case e.InputRead():
                self._input_read(event)
            case e.InputEndRequested():
                self.idleness.input_end_requested(event)
            case e.CheckpointLoaded():
                self._checkpoint_loaded(event)
            case e.TailRead():
                self._tail_read(event)
            case e.Acknowledged():
                self._acknowledged(event)
            case e.CheckpointStored():
                self._checkpoint_stored(event)
            case e.ContributionsRead():
                self.shards.read(event)
            case e.OutputsFollowed():
                self.replicas.outputs_followed(event)
            case _:
                pass

    def learn(self, fact: f.Fact) -> None:
        """The state of partitions by the control topic."""
        me = self.config.node
        match fact:
            case f.PartitionClaimed(partition, node, version):
                if node == me:
                    self.take(partition, version)
                else:
                    self.lose(partition)
            case f.PartitionReleased(partition, _, node) if node == me:
                runner = self.runners.get(partition)
                if runner is not None and not runner.is_released:  # else it is worked on until somebody claims it
                    self.lose(partition)
            case f.SlotRequested(partition, by) if by != me:
                self._slot_requested(partition)
            case f.ShardRequested():
                self.shards.requested(fact)
            case f.CheckpointRecorded():
                self.uncheckpointed.recorded(fact.partition)
                self.slot_recovery.drop_windows()
            case _:
                pass

    def received(self, message: m.SlotSent, size: int) -> None:
        """A delta was read from the broadcast; ``size`` of its last record."""
        self.uncheckpointed.delta(message.delta, size)
        self.replicas.receive(message)
        self.shards.took(message)

    def _input_read(self, read: e.InputRead) -> None:
        runner = self.runner(read.partition, read.version)
        if runner is None or not runner.is_running or runner.task.waiting:
            return
        if read.run.next_offset > runner.task.next_offset and self.replicas.takes(runner):
            self.replicas.fed(runner, read)
            self.accusing.feed(runner, read.run)
            self.unusual_time = self.unusual_time or runner.task.records.unusual_time

    def _checkpoint_loaded(self, loaded: e.CheckpointLoaded) -> None:
        runner = self.runner(loaded.partition, loaded.version)
        if runner is None or not runner.is_loading:
            return
        if loaded.data is None and loaded.tried and not set(self._known(runner.partition)) <= set(loaded.tried):
            self.load(runner)  # newer ones were saved meanwhile, and these deleted for them
            return
        try:
            since = runner.restore(loaded.data, self.now_ms, keeping.taken_over(self.run, loaded), loaded.below)
        except DecodeError as error:
            if self.replicas.give_up(runner.partition):
                return
            at = f"checkpoint {loaded.name} of partition {loaded.partition}"
            raise DecodeError(f"{at} cannot be used by this code: {error}") from error
        if keeping.lacks_history(self.job, self.replica, runner):
            if self.replicas.give_up(runner.partition):
                return
            # Checkpoints are damaged or gone: replay from so far back needs what was dropped here.
            self.replica.reset()
            self.effects.append(RewindBroadcast())
        self.effects.append(ReadTail(runner.partition, runner.key, since, runner.known_ends))

    def _tail_read(self, tail: e.TailRead) -> None:
        """From here on the partition runs; nodes with a gap in its slot can fill it now."""
        runner = self.runner(tail.partition, tail.version)
        if runner is not None and runner.is_scanning:
            runner.begin(tail.last, tail.ends)
            if runner.standby is not None:
                return
            self.effects.append(runner.broadcast(self.slot_recovery.full(runner)))
            if not runner.idle_allowed:
                self.slot_recovery.take_own(runner)

    def _acknowledged(self, ack: e.Acknowledged) -> None:
        runner = self.runner(ack.partition, ack.version)
        if runner is not None:
            runner.acknowledged = max(runner.acknowledged, ack.ticket)
            runner.output_ends.update(ack.ends)

    def _checkpoint_stored(self, stored: e.CheckpointStored) -> None:
        runner = self.runner(stored.partition, stored.version)
        if runner is None or runner.pending is None or runner.pending.ticket != stored.ticket:
            return
        pending = runner.checkpoint_stored(stored.name)
        late_states, me = self.job.program.late_states, self.config.node
        self.control(pending.record(self.run.incarnation, me, runner.version, stored.name, late_states))

    def slot_changed(self, partition: int) -> None:
        """A broadcast message of this partition was taken: it may be a punctuation that a runner has missed."""
        runner = self.runners.get(partition)
        if runner is not None and runner.is_running and not runner.apply_punctuations():
            self.restart(runner)

    def _slot_requested(self, partition: int) -> None:
        """Somebody has a gap in the partition's slot."""
        runner = self.runners.get(partition)
        if runner is None or not runner.is_running or not self.replicas.answers_for(runner):
            return
        self._flush(runner, always=True)
        full = self.replica.full(partition) if runner.idle_allowed else self.slot_recovery.full(runner)
        self.effects.append(runner.broadcast(full))

    # --- work -------------------------------------------------------------------------------------------------------

    def wanted(self) -> list[WantedInput]:
        """Input that could be processed now, the partition that is furthest behind first."""
        found, full = [], self.uncheckpointed.over
        for runner in self.running():
            task = runner.task
            if task.waiting or task.records.ended or self.accusing.waits(runner):
                continue
            # A partition that has saved all may go on by a batch: its next checkpoint may be the one that all wait for.
            if full and (runner.standby is not None or not runner.settled):
                continue
            end = self.ownership.end_offset(runner.partition)
            if end is None and self.config.until:
                end = self.config.until[runner.partition]
            limit = self.replicas.limit(runner, runner.input_limit(end))
            if self._too_far_ahead(runner):  # records that a former owner has read open no further windows
                read = self.replica.slots[runner.partition].record.position[0]
                limit = read if limit is None else min(limit, read)
            if (limit is None or task.next_offset < limit) and not self.idleness.is_on_its_way(runner):
                found.append(WantedInput(runner.partition, runner.key, task.next_offset, limit))
        return sorted(found, key=lambda wanted: self.runners[wanted.partition].task.watermark_ms)

    def _too_far_ahead(self, runner: Runner) -> bool:
        """A fast partition waits, so that a lagging one cannot pile up open windows without bound.

        One that never had a record holds nobody up: how far it is behind is not known.
        """
        if self.config.max_watermark_drift_ms <= 0:
            return False
        last_ms = self.replica.frontier_ms
        if last_ms <= BEFORE_TIME_MS:
            reached = (slot.record.watermark_ms for slot in self.replica.slots)
            last_ms = min((at_ms for at_ms in reached if at_ms > BEFORE_TIME_MS), default=END_OF_TIME_MS)
        return runner.task.watermark_ms - last_ms > self.config.max_watermark_drift_ms

    def settle(self) -> None:
        """Bring everything as far as it can go. Raises ``UserFunctionError``."""
        for runner in self._each():
            if runner.apply_punctuations():
                self._maybe_end(runner)
            else:
                self.restart(runner)
        if self.stopping:
            self.replicas.drop_all()
        before = None
        self.shards.settle()
        while before != (before := (self.replica.progress, self.shards.progress)):
            for runner in self._each():
                runner.task.advance()
                self._maybe_end(runner)
                self._flush(runner)
        self.idleness.settle()
        for runner in self._each():
            if runner.standby is None:
                self._maybe_checkpoint(runner)
        for runner in list(self.runners.values()):
            if runner.standby is None:
                self._maybe_release(runner)

    def _flush(self, runner: Runner, always: bool = False) -> None:
        """Results first, then the delta that reports their windows as answered."""
        if runner.standby is not None:
            self.replicas.flush(runner, runner.standby)
            return
        self.effects += runner.outputs()
        limits = (0, 0) if always else (self.broadcast_interval_ms, self.shards.waiting_bytes(runner))
        if (delta := runner.delta(self.now_ms, *limits, self._gathered)) is None:
            return
        self.shards.send(runner, delta)
        if not runner.idle_allowed:
            if self.replica.receive(delta).gap:
                self.slot_recovery.take_own(runner)
            self.shards.sent(delta)

    def _gathered(self, watermark_ms: int) -> bool:
        """True if no partition of this node holds the frontier below, or results wait for each single delta."""
        if self.job.allows_idleness:
            return True
        return all(runner.task.watermark_ms >= watermark_ms for runner in self._each() if runner.standby is None)

    def _maybe_end(self, runner: Runner) -> None:
        end = self.ownership.end_offset(runner.partition)
        task = runner.task
        at_end = end is not None and task.next_offset >= end and not task.records.ended and not task.waiting
        if at_end and self.replicas.may_end(runner):
            task.end()

    def _maybe_checkpoint(self, runner: Runner) -> None:
        interval_ms = 0 if self.uncheckpointed.over else self.config.checkpoint_interval_ms
        if runner.wants_checkpoint(self.now_ms, interval_ms, stopping=self.stopping):
            self._flush(runner, always=True)
            runner.begin_checkpoint(self.now_ms)
        save = runner.ready_checkpoint()
        if save is not None:
            self.effects.append(save)

    def _maybe_release(self, runner: Runner) -> None:
        """Hand over at a checkpoint, so that the next owner has little to make again.

        An owner that stays goes on until it reads the next owner's claim: no node is to wait for the partition
        meanwhile, and both write the same.
        """
        if self.stopping and runner.settled:
            if not runner.is_released:
                self._release(runner)
            self.lose(runner.partition)
        elif runner.is_offered and not self.stopping and (runner.is_handed or runner.settled):
            self._release(runner)

    def _release(self, runner: Runner) -> None:
        to = runner.release()
        self.control(m.Release(self.run.incarnation, self.config.node, runner.partition, runner.version, to))

    def control(self, message: m.ControlMessage) -> None:
        """Write to the control topic."""
        self.effects.append(WriteControl(m.encode(message)))

    # --- figures ----------------------------------------------------------------------------------------------------

    @property
    def emitted(self) -> int:
        """Results that this node has written."""
        return self._emitted + sum(runner.emitted for runner in self.runners.values())

    @property
    def suppressed(self) -> int:
        """Results that it made again and found on the log already."""
        return self._suppressed + sum(runner.suppressed for runner in self.runners.values())
