"""Filling: whole slots that this node has for others or takes from them, and the windows that it forgets.

Two rules for this file: a slot that lacks what a runner here still reads is not taken; nothing is forgotten that such a
runner reads (``broadcast/retention.py``).
"""

from __future__ import annotations

import msgspec

from nodes.machine.broadcast import window_retention as keeping
from nodes.machine.effects import RewindBroadcast
from nodes.machine.partitions import Partitions
from nodes.machine.runner import Runner
from wcrdt.replica.replica import SlotDelta


class SlotRecovery:
    """The full slots of one workload."""

    def __init__(self, work: Partitions) -> None:
        self.work = work
        self.job = work.job
        self.replica = work.replica
        self.ownership = work.ownership

    def heal(self, partition: int) -> bool:
        """The slot of a partition lacks something that an owner here has, or will make again; False: others do.

        A standby here fills it as far as its own work goes, which may be less than what is missing.
        """
        runner = self.work.runners.get(partition)
        if runner is None or runner.standby is not None:
            if runner is not None:
                self.work.replicas.heal(runner)
            return False
        if not runner.is_running:
            return True
        if runner.idle_allowed:  # results wait for their delta to be read back
            self.work.effects.append(runner.broadcast(self.full(runner)))
        elif not self.take_own(runner):
            self.work.effects.append(RewindBroadcast(partition))
        return True

    def take_own(self, runner: Runner) -> bool:
        """Bring the replica to the runner's position, sooner than the broadcast does; False if that cannot be."""
        full = self.full(runner)
        if self.can_take(full):
            self.replica.receive(full)
            return True
        return False

    def full(self, runner: Runner) -> SlotDelta:
        """The runner's whole slot; windows that its checkpoint did not hold any more are not in it."""
        through = max(self.replica.dropped_through_ms, keeping.recorded_through_ms(self.job, self.ownership))
        slot, full = self.replica.slots[runner.partition], runner.task.full_delta()
        recent = slot.punctuations if slot.punctuation_count == full.punctuations else []
        return msgspec.structs.replace(full, dropped_through_ms=through, recent=recent)

    def can_take(self, delta: SlotDelta) -> bool:
        """False for a full slot that would fill a gap, but without windows that a runner here still reads."""
        slot = self.replica.slots[delta.partition]
        record = delta.record
        fills = record is not None and record.full and record.to > slot.record.position
        fills |= any(new.full and new.to > own.position for new, own in zip(delta.stages, slot.stages, strict=False))
        return not fills or self.work.replicas.can_use(delta)

    def drop_windows(self) -> None:
        """Forget windows that no checkpoint that may still be used needs."""
        recorded = keeping.recorded_through_ms(self.job, self.ownership)
        self.work.replicas.catch_up(recorded)
        through = min(recorded, keeping.unread_after_ms(self.job, self.work.runners.values()))
        if through > self.replica.dropped_through_ms:
            self.replica.drop_through(through)
            for runner in self.work.runners.values():
                runner.task.drop_through(through)
        for partition, slot in enumerate(self.replica.slots):
            if slot.punctuations:
                oldest = keeping.replayed_from(self.ownership, partition, self.work.runners.get(partition))
                if oldest is not None:
                    slot.forget_punctuations(oldest)
