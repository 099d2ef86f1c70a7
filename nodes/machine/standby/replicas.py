"""Replicas: the partitions that this node processes as a standby of their owners, and the promotion of a standby.

Two rules for this file. A standby never saves or releases: only the owner does. Where punctuation may void work (idle
partitions) nothing that a standby makes is final before the broadcast has accepted it, as nothing of the owner is.

Design: docs/design/replicas.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast import window_retention as keeping
from nodes.machine.broadcast.deltas_to_send import sent_through
from nodes.machine.ownership.succession import Succession
from nodes.machine.partitions import Partitions
from nodes.machine.runner import Runner
from nodes.machine.standby.active_standby import ResultPace
from nodes.machine.standby.held_results import Logged
from nodes.machine.standby.standby import PartitionStandby, Patience
from wcrdt.replica.replica import Punctuation, SlotDelta
from wcrdt.windows.assigners import END_OF_TIME_MS

STEP_MS = 10
"""The most that a step adds to running time: a node that did not run could not read the records of others."""
POLL_SOON_MS = 100
FOLLOW_MS = 50
"""How often output partitions are read that nothing is held for."""


class Replicas:
    """The standbys among a workload's runners."""

    def __init__(self, work: Partitions) -> None:
        self.work = work
        self.config = work.config
        self.running_ms = 0
        self.published = 0
        self.promotions = 0
        self.restarts = 0
        self._logged = [Logged() for _ in work.replica.slots] if self.config.replicas > 1 else []
        self._succession = Succession(work.config.node, [len(work.replica.slots)], work.config.replicas)
        self._unfit: dict[int, str | None] = {}
        self._keys = 0
        self._pace = ResultPace()
        self._followed_ms: int | None = None

    def passed(self, passed_ms: int) -> None:
        """A step, so long after the last one."""
        self.running_ms += min(passed_ms, STEP_MS)

    # --- who is one -----------------------------------------------------------------------------------------------

    def designate(self, live: Sequence[str], owners: Mapping[int, str | None], keeping: Collection[str] = ()) -> None:
        """Be the standby of what this node is next for; ``keeping``: nodes that would be given nothing more."""
        if self.config.replicas < 2 or self.work.stopping:
            return
        held = [partition for partition, runner in self.work.runners.items() if runner.standby is not None]
        ranks = self._succession.ranks(live, owners, keeping, held, self.running_ms)
        for partition, rank in ranks.items():
            self._begin_standby(partition, rank)
        for partition in held:
            if partition not in ranks:
                self.work.drop(partition)

    def _begin_standby(self, partition: int, rank: int) -> None:
        runner = self.work.runners.get(partition)
        if runner is None:
            if rank >= self.config.replicas:
                return
            saved = self.work.ownership.checkpoint(partition)
            if partition in self._unfit and self._unfit[partition] == (saved and saved.name):
                return
            self._unfit.pop(partition, None)
            self._keys -= 1
            runner = self.work.fresh(partition, 0, self._keys)
            runner.become_standby(self._new(rank))
            self.work.load(runner)
        elif runner.standby is not None:
            runner.standby.ranked(rank, self._patience(rank))

    def _patience(self, rank: int) -> Patience:
        return Patience.of(self.config.standby_after_ms, self.work.broadcast_interval_ms, rank)

    def _new(self, rank: int) -> PartitionStandby:
        return PartitionStandby(self._patience(rank), rank, self._pace)

    def another(self, standby: PartitionStandby) -> PartitionStandby:
        """One that begins anew in the place of this one."""
        self.restarts += 1
        return self._new(standby.rank)

    @property
    def abreast(self) -> int:
        """How many standbys here have no backlog."""
        return sum(standby.free for _, standby in self._standbys())

    def _standbys(self) -> list[tuple[Runner, PartitionStandby]]:
        running = self.work.running() if self.config.replicas > 1 else []
        return [(runner, runner.standby) for runner in running if runner.standby is not None]

    # --- coming and going -----------------------------------------------------------------------------------------

    def promote(self, runner: Runner, version: int) -> None:
        """The standby owns the partition now: it keeps its state and publishes what the log does not hold yet."""
        work = self.work
        standby = runner.own(version, work.now_ms)
        if standby is None:
            return
        self.promotions += 1
        work.effects += runner.write(standby.outputs.take())
        for delta in standby.deltas.take() if runner.shard is not None else ():  # for their contributions
            work.shards.send(runner, delta)
        work.effects.append(runner.broadcast(work.slot_recovery.full(runner)))
        if not runner.idle_allowed:
            work.slot_recovery.take_own(runner)

    def demote(self, runner: Runner) -> bool:
        """The owner goes on as a standby; False where it cannot."""
        if self.config.replicas < 2 or self.work.stopping or runner.idle_allowed or not runner.is_running:
            return False
        standby = self._new(self._succession.rank(runner.partition))
        standby.outputs.begin({}, runner.output_ends)
        runner.become_standby(standby)
        return True

    def give_up(self, partition: int) -> bool:
        """A standby cannot go on from this checkpoint, or with this input: that is its owner's to find out."""
        runner = self.work.runners.get(partition)
        if runner is None or runner.standby is None:
            return False
        saved = self.work.ownership.checkpoint(partition)
        self._unfit[partition] = saved and saved.name
        self.work.drop(partition)
        return True

    def drop_all(self) -> None:
        """The node leaves."""
        for partition, runner in list(self.work.runners.items()):
            if runner.standby is not None:
                self.work.drop(partition)

    def catch_up(self, recorded_through_ms: int) -> None:
        """Standbys so far behind that three checkpoints are ahead of them begin anew at the newest."""
        for runner, _ in self._standbys():
            if keeping.unread_after_ms(self.work.job, [runner]) < recorded_through_ms:
                self.work.restart(runner)

    def can_use(self, delta: SlotDelta) -> bool:
        """False for a full slot that lacks windows that a runner here still reads; standbys that do are given up."""
        work = self.work
        if keeping.usable(work.job, delta, work.runners, work.replica):
            return True
        owned = {partition: runner for partition, runner in work.runners.items() if runner.standby is None}
        if not keeping.usable(work.job, delta, owned, work.replica):
            return False
        for partition, runner in list(work.runners.items()):
            if partition not in owned and not keeping.usable(work.job, delta, {partition: runner}, work.replica):
                self.give_up(partition)
        return True

    # --- the log --------------------------------------------------------------------------------------------------

    def receive(self, message: m.SlotSent) -> None:
        """A delta was read from the broadcast."""
        if not self._logged:
            return  # there are no standbys
        delta = message.delta
        logged = self._logged[delta.partition]
        logged.take(delta, sent_through(message))
        runner = self.work.runners.get(delta.partition)
        if runner is not None and runner.standby is not None:
            known = None if runner.idle_allowed else logged
            runner.standby.deltas.receive(delta, known, self.running_ms)

    def punctuate(self, punctuation: Punctuation) -> None:
        """A punctuation was read from the broadcast."""
        self.work.replica.punctuate(punctuation)
        runner = self.work.runners.get(punctuation.partition)
        if runner is not None and runner.standby is not None:
            runner.standby.deltas.receive_punctuation(punctuation, self.running_ms)

    def followed(self) -> dict[e.OutputPartition, int]:
        """Output partitions to read on, and from where: all of them now and then, else those with something held."""
        now = self.work.now_ms
        everything = self._followed_ms is None or now - self._followed_ms >= FOLLOW_MS
        self._followed_ms = now if everything else self._followed_ms
        found: dict[e.OutputPartition, int] = {}
        for _, standby in self._standbys():
            outputs = standby.outputs
            for to in outputs.ends if everything else outputs.waiting():
                found[to] = min(outputs.ends[to], found.get(to, outputs.ends[to]))
        return dict(sorted(found.items()))

    def holds(self) -> bool:
        """True if some standby waits for something to appear on the log."""
        return any(standby.holds or not standby.free for _, standby in self._standbys())

    @property
    def patience_ms(self) -> int:
        """The time until this node has to check again whether an owner is late.

        Where that is soon, in steps that count in full: patience would last twice as long as it should.
        """
        due = min((s.due_ms(self._log_of(r), self.running_ms) for r, s in self._standbys()), default=END_OF_TIME_MS)
        return due if due > POLL_SOON_MS else min(due, STEP_MS)

    def outputs_followed(self, followed: e.OutputsFollowed) -> None:
        """Records of the outputs; at their end, each standby judges whether its owner is late."""
        standbys = self._standbys()
        for output in followed.followed:
            for runner, standby in standbys:
                if output.to in standby.outputs.ends:
                    found = {track: runs for (p, track), runs in output.found.items() if p == runner.partition}
                    standby.outputs.saw(output.to, output.start, output.end, found, self.running_ms)
        if followed.at_end:
            for runner, standby in standbys:
                standby.judge(runner.task.next_offset, self._log_of(runner), self.running_ms)

    def _log_of(self, runner: Runner) -> Logged:
        """The part of the partition that the log holds; where punctuation may void deltas, only accepted ones count."""
        if not runner.idle_allowed:
            return self._logged[runner.partition]
        slot = self.work.replica.slots[runner.partition]
        return Logged(slot.record.position, tuple(slot.answered_ms), slot.record.watermark_ms)

    # --- work -----------------------------------------------------------------------------------------------------

    def limit(self, runner: Runner, limit: int | None) -> int | None:
        """Where reading the input stops: ``limit``, or sooner for a standby."""
        if runner.standby is None:
            return limit
        logged, standby = self._log_of(runner), runner.standby
        stays = runner.idle_allowed and (not standby.level or standby.is_pausing(runner.task.position, self.running_ms))
        own = logged.record[0] if stays else standby.limit(runner.task.next_offset, logged)
        return own if limit is None else limit if own is None else min(limit, own)

    def takes(self, runner: Runner) -> bool:
        """False where punctuations may be on their way that come before the record that was read."""
        if runner.standby is None or not runner.idle_allowed:
            return True
        may_come = self.work.idleness.may_come(runner)
        return not (may_come and runner.standby.pauses(runner.task.position, self.running_ms))

    def fed(self, runner: Runner, read: e.InputRead) -> None:
        """The runner is about to process what was read."""
        if runner.standby is not None:
            limit = runner.standby.limit(runner.task.next_offset, self._log_of(runner))
            runner.standby.fed(read.run.next_offset, limit, read.more, self.running_ms)

    def may_end(self, runner: Runner) -> bool:
        """True if nothing can come between the last record and the end of input."""
        if runner.standby is None or not runner.idle_allowed:
            return not self.work.idleness.is_on_its_way(runner)
        if self.work.replica.slots[runner.partition].record.position > runner.task.position:
            return True
        return runner.standby.level and self.takes(runner)

    def answers_for(self, runner: Runner) -> bool:
        """True if the runner answers for its partition."""
        return runner.standby is None or runner.standby.deltas.active_standby.active

    def heal(self, runner: Runner) -> None:
        """Fill a hole in the slot from the standby's own work, as far as that goes."""
        known = self.work.replica.slots[runner.partition].record.position
        if runner.is_running and not runner.idle_allowed and runner.task.position > known:
            self.work.slot_recovery.take_own(runner)

    def flush(self, runner: Runner, standby: PartitionStandby) -> None:
        """Hold back what is new; publish what is held if the owner was late."""
        work, now = self.work, self.running_ms
        for final in runner.final_outputs():
            standby.outputs.hold(final.taken, now)
        awaited = runner.awaited()
        delta = runner.delta(work.now_ms, work.broadcast_interval_ms, work.shards.waiting_bytes(runner))
        if delta is not None:
            standby.deltas.hold(delta, awaited, now)
        if runner.idle_allowed:
            standby.deltas.are_on(self._log_of(runner), now)
        elif delta is not None:  # its contribution is final, so it may be used at once
            standby.deltas.forget(self._logged[runner.partition])
            if work.replica.receive(delta).gap:
                work.slot_recovery.take_own(runner)
            work.shards.sent(delta)
        if standby.outputs.active_standby.active:
            before = runner.emitted
            work.effects += runner.write(standby.outputs.take())
            self.published += runner.emitted - before
        if standby.deltas.active_standby.active:
            for delta in standby.deltas.take():
                work.shards.send(runner, delta)
