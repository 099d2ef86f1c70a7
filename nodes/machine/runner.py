"""The runner: one partition that this node processes, as its owner from the claim to the release, or as a standby.

Two rules for this file: outputs and deltas leave in order and under growing tickets; a checkpoint is requested only
when everything before it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from holon.formats.formats import AtomFormat
from holon.input_layout import InputLayout
from holon.job import UNSTABLE, Job
from holon.outputs.identity import NOTHING_SEEN, LastSeen, OutputId
from holon.outputs.runs import OutputRun
from holon.tracks.parts import snapshot_of
from holon.tracks.record_track import Input
from holon.tracks.task import PartitionTask
from nodes.machine.broadcast.awaited_ends import AwaitedEnds
from nodes.machine.broadcast.deltas_to_send import encoded
from nodes.machine.checkpoints.parts import CheckpointParts
from nodes.machine.checkpoints.pending import Pending
from nodes.machine.config import ContinuedIncarnation, PartsConfig
from nodes.machine.effects import Effect, SaveCheckpoint, WriteBroadcast, WriteContribution, WriteOutput
from nodes.machine.events import OutputPartition
from nodes.machine.partition_lifecycle import LifecycleEvent, PartitionLifecycle, PartitionStage
from nodes.machine.standby.held_results import Awaited, Unconfirmed
from nodes.machine.standby.standby import PartitionStandby
from wcrdt.replica.replica import Punctuation, Replica, SlotDelta
from wcrdt.replica.shards import ShardReplica
from wcrdt.replica.slots import Position

SavedPosition = tuple[Position, list[int]]
"""Of the record track, and through which end each stage has answered."""


class Runner:
    """One partition. ``idle_allowed``: punctuation may move it, so its results wait for their own delta.

    ``version`` is that of the claim; 0 with ``standby``. ``key`` names this runner in events and effects.
    """

    def __init__(
        self,
        job: Job,
        incarnation: int,
        partition: int,
        version: int,
        replica: Replica,
        sizes: dict[str, int],
        start_offset: int,
        key: int | None = None,
        upstream: Mapping[str, int] | None = None,
        origin: int | None = None,
        live_guard_ms: int | None = None,
        parts: PartsConfig | None = None,
        layout: InputLayout | None = None,
        shard: ShardReplica | None = None,
    ) -> None:
        self.shard = shard
        self.job = job
        self.incarnation = incarnation
        self.partition = partition
        self.version = version
        self.key = version if key is None else key
        self.standby: PartitionStandby | None = None
        self.replica = replica
        self.idle_allowed = job.allows_idleness
        self.task = PartitionTask(
            job,
            incarnation if origin is None else origin,
            partition,
            len(replica.slots),
            replica,
            output_partitions=sizes,
            start_offset=start_offset,
            upstream=upstream,
            live_guard_ms=live_guard_ms,
            layout=layout,
            shard=None if shard is None else shard.replica,
        )
        self.lifecycle = PartitionLifecycle()
        self.releasing_to: str | None = None
        self.ticket = self.acknowledged = 0
        self.output_ends: dict[OutputPartition, int] = {}
        self.pending: Pending | None = None
        self._parts = CheckpointParts(parts or PartsConfig())
        self.saved_position: SavedPosition | None = None
        self.last_checkpoint_ms = self.last_delta_ms = 0
        self.suppressed = self.emitted = 0
        self._taken = 0
        self.known_ends: dict[str, dict[int, int]] = {}
        self._skip: dict[OutputPartition, dict[int, LastSeen]] = {}
        self._held: list[Unconfirmed] = []
        self._awaited = AwaitedEnds(self.task, replica, job.program)

    # --- restoring ------------------------------------------------------------------------------------------------

    def restore(
        self,
        data: bytes | None,
        now_ms: int,
        continued: ContinuedIncarnation | None = None,
        below: Sequence[bytes] = (),
    ) -> dict[str, dict[int, int]]:
        """Take the checkpoint (None: start afresh); returns from where the output partitions are to be scanned.

        ``below``: the checkpoints that it rests on. ``continued``: it is one of an input that had ended, behind which
        this one goes on.

        Raises ``DecodeError`` on contents that are no snapshot of this job.
        """
        since: dict[str, dict[int, int]] = {}
        if data is not None:
            snapshot = snapshot_of(data, below)
            self._parts.restored(sum(map(len, (data, *below))))
            if continued is not None:
                stage = self.job.program.last_stage
                snapshot = snapshot.reopened(continued.closed_ms, self.job.allowed_lateness_ms, stage)
            self.task.restore(snapshot)
            since, self.known_ends = snapshot.output_ends, snapshot.known_ends
            self.saved_position = self._position()
            self._taken = self.task.records.counts.taken
        self.lifecycle.happens(LifecycleEvent.LOADED)
        self.last_checkpoint_ms = now_ms
        return since

    def begin(self, last: dict[OutputPartition, dict[int, LastSeen]], ends: dict[OutputPartition, int]) -> None:
        """The output tails are known: what is on the log already is not written again."""
        if self.standby is not None:
            self.standby.outputs.begin(last, ends)
        self._set_outputs(last, ends)
        self.lifecycle.happens(LifecycleEvent.SCANNED)

    def _set_outputs(self, last: dict[OutputPartition, dict[int, LastSeen]], ends: dict[OutputPartition, int]) -> None:
        self._skip = {to: dict(tracks) for to, tracks in last.items() if tracks}
        self.output_ends = dict(ends)

    def become_standby(self, standby: PartitionStandby) -> None:
        """The partition is another's from now on: what only an owner does ends here."""
        self.lifecycle.happens(LifecycleEvent.STANDBY_BEGUN)
        self.standby = standby
        self.version, self.releasing_to, self.pending = 0, None, None
        self._parts.stop(self.task)

    def own(self, version: int, now_ms: int) -> PartitionStandby | None:
        """A standby is the owner now: what it held back, if it has come so far."""
        self.lifecycle.happens(LifecycleEvent.CLAIMED)
        standby, self.standby, self.version = self.standby, None, version
        if standby is None or not self.is_running:
            return None  # what it waits for comes to it as the owner
        self._set_outputs(standby.outputs.seen, standby.outputs.ends)
        self.last_checkpoint_ms = now_ms
        return standby

    def offer(self, to: str) -> None:
        """This node should have the partition."""
        self.lifecycle.happens(LifecycleEvent.OFFERED)
        self.releasing_to = to

    def release(self) -> str | None:
        """The release is about to be written; for whom it is. A partition that is still loading ends with it."""
        if self.is_running:
            self.lifecycle.happens(LifecycleEvent.RELEASED)
        return self.releasing_to

    def end(self) -> None:
        """The work here is over, or void."""
        self.lifecycle.happens(LifecycleEvent.ENDED)

    @property
    def is_running(self) -> bool:
        """Whether it processes input."""
        return self.lifecycle.is_running

    @property
    def is_loading(self) -> bool:
        """Whether its checkpoint is still to come."""
        return self.lifecycle.stage in (PartitionStage.LOADING, PartitionStage.STANDBY_LOADING)

    @property
    def is_scanning(self) -> bool:
        """Whether the tails of its output partitions are still to come."""
        return self.lifecycle.stage in (PartitionStage.SCANNING, PartitionStage.STANDBY_SCANNING)

    @property
    def is_released(self) -> bool:
        """Whether the release is written."""
        return self.lifecycle.stage is PartitionStage.RELEASED

    @property
    def is_offered(self) -> bool:
        """Whether another node should have the partition, and no release is written yet."""
        return self.lifecycle.stage in (PartitionStage.OFFERED, PartitionStage.HANDED)

    @property
    def is_handed(self) -> bool:
        """Whether a checkpoint for the next owner is stored."""
        return self.lifecycle.stage is PartitionStage.HANDED

    # --- input ----------------------------------------------------------------------------------------------------

    def input_limit(self, end_offset: int | None) -> int | None:
        """The offset at which the next read must stop: the declared end, or a punctuation to apply; None: no limit."""
        waiting = self._next_punctuation()
        stops = [end_offset] if end_offset is not None else []
        if waiting is not None:
            stops.append(waiting.after[0])
        return min(stops, default=None)

    def feed(self, run: Input) -> None:
        """Process a run of records; raises ``UserFunctionError``."""
        self._taken += len(run)
        self.task.feed(run)

    @property
    def taken(self) -> int:
        """Events of the input up to here, counted apart from what became of them."""
        return self.task.records.events if isinstance(self.task.input.source.format, AtomFormat) else self._taken

    def apply_punctuations(self) -> bool:
        """Take the accepted punctuations at the current position.

        False if one was accepted at a position that this task has passed without it: its work since then is void and
        has to be made again from the checkpoint.
        """
        while (punctuation := self._next_punctuation()) is not None:
            position = self.task.scope.record.position
            if punctuation.after > position:
                return True
            if punctuation.after < position:
                return False
            self.task.punctuate(punctuation.watermark_ms)
        return True

    def _next_punctuation(self) -> Punctuation | None:
        slot = self.replica.slots[self.partition]
        index = self.task.punctuations - slot.punctuations_dropped
        return slot.punctuations[index] if 0 <= index < len(slot.punctuations) else None

    # --- what leaves ----------------------------------------------------------------------------------------------

    def outputs(self) -> list[Effect]:
        """Results that may leave now."""
        effects: list[Effect] = []
        for held in self.final_outputs():
            effects += self.write(held.taken)
            pending = self.pending
            if pending is not None and not pending.sent and held.position <= pending.snapshot.record.slot.to:
                pending.ticket = self.ticket  # it had to wait, but the snapshot is behind it
        return effects

    def final_outputs(self) -> list[Unconfirmed]:
        """New results that nothing can make void any more, in order."""
        taken = self.task.take_outputs()
        new = [Unconfirmed(self.task.scope.record.position, taken)] if taken else []
        if not self.idle_allowed:
            return new
        self._held += new
        confirmed = self.replica.slots[self.partition].record.position
        final = []
        while self._held and self._held[0].position <= confirmed:
            final.append(self._held.pop(0))
        return final

    def delta(
        self, now_ms: int, interval_ms: int, waiting_bytes: int, gathered: Callable[[int], bool] = lambda _: True
    ) -> SlotDelta | None:
        """The delta, if something has changed and either somebody waits for it or the interval is over.

        ``gathered``: whether all partitions of this node have come to a watermark. Before they have, nobody can use a
        delta that closes a window, so it waits for them a little. So much of contributions as in ``take_delta``.
        """
        if not self.task.has_changes_beside(waiting_bytes):
            return None
        due = now_ms - self.last_delta_ms >= interval_ms or self.task.records.ended or self.task.waiting
        if not (due or self._awaited.is_due(now_ms, gathered)):
            return None
        self.last_delta_ms = now_ms
        self._awaited.sent()
        return self.task.take_delta(waiting_bytes=waiting_bytes)

    def awaited(self) -> Awaited:
        """The ends that others wait for and that the next delta carries."""
        return self._awaited.now()

    def broadcast(self, delta: SlotDelta | Punctuation) -> Effect:
        """Write to the partition's broadcast. Raises ``DeltasTooLarge``."""
        self.ticket += 1
        return WriteBroadcast(self.partition, self.key, self.ticket, encoded(self.incarnation, delta, self.partition))

    def contribution(self, shard: int, contribution: SlotDelta) -> WriteContribution:
        """Write to a shard. Raises ``DeltasTooLarge``."""
        self.ticket += 1
        value = encoded(self.incarnation, contribution, self.partition)
        return WriteContribution(self.partition, self.key, self.ticket, value, shard)

    def write(self, taken: dict[OutputPartition, OutputRun]) -> list[Effect]:
        """Write results, but for those that the log was seen to hold."""
        effects: list[Effect] = []
        for to in sorted(taken):
            run = taken[to]
            if to in self._skip and to[0] != UNSTABLE:
                run = self._without_written(to, run)
            if len(run):
                self.ticket += 1
                self.emitted += len(run)
                effects.append(
                    WriteOutput(self.partition, self.key, self.ticket, to, run.values, run.headers, run.keys)
                )
        return effects

    def _without_written(self, to: OutputPartition, run: OutputRun) -> OutputRun:
        """Leave out what the output partition holds already; past the last of it, nothing more is looked at."""
        last = self._skip[to]
        kept = OutputRun()
        for value, header, key in zip(run.values, run.headers, run.keys, strict=True):
            identity = OutputId.from_bytes(header)
            track = int(identity.track)
            if (identity.position, identity.n) <= last.get(track, NOTHING_SEEN):
                self.suppressed += 1
                continue
            last.pop(track, None)
            kept.add(value, header, key)
        if not last:
            del self._skip[to]
        return kept

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def wants_checkpoint(self, now_ms: int, interval_ms: int, *, stopping: bool = False) -> bool:
        """True if there is something new to save, and it is time (or the partition has to move)."""
        if not self.is_running or self.pending is not None or self.task.waiting:
            return False
        if self._position() == self.saved_position:
            return False
        hurry = stopping or self.lifecycle.stage is PartitionStage.OFFERED or self.task.done
        return hurry or now_ms - self.last_checkpoint_ms >= interval_ms

    def begin_checkpoint(self, now_ms: int) -> None:
        """Keep a snapshot of now; the caller has just flushed outputs and delta."""
        begun = self._parts.begin(self.task)
        snapshot = msgspec.structs.replace(begun.snapshot, output_ends=self._ends())
        handover = self.releasing_to is not None
        self.pending = Pending(begun, snapshot, self.ticket, self.task.done, self.task.watermark_ms, handover)
        self.last_checkpoint_ms = now_ms

    def _ends(self) -> dict[str, dict[int, int]]:
        ends: dict[str, dict[int, int]] = {}
        for (output, partition), end in sorted(self.output_ends.items()):
            ends.setdefault(output, {})[partition] = end
        return ends

    def ready_checkpoint(self) -> SaveCheckpoint | None:
        """The save, once all outputs and deltas before the snapshot are on the log."""
        pending = self.pending
        if pending is None or pending.sent or self.acknowledged < pending.ticket or not self._confirmed(pending):
            return None
        pending.sent = True
        snapshot = msgspec.structs.replace(pending.snapshot, known_ends=self._ends())
        return SaveCheckpoint(
            self.partition,
            self.key,
            pending.ticket,
            snapshot.record.slot.to,
            snapshot.window.position,
            self._parts.encoded(pending.begun, snapshot),
            pending.begun.copies,
            pending.begun.rests_on,
        )

    def _confirmed(self, pending: Pending) -> bool:
        """Where punctuation may void work, it also has to be read back, and no result may wait."""
        if not self.idle_allowed:
            return True
        confirmed = self.replica.slots[self.partition].record.position
        to = pending.snapshot.record.slot.to
        return confirmed >= to and not any(held.position <= to for held in self._held)

    def checkpoint_stored(self, name: str) -> Pending:
        """The pending snapshot is durable under this name."""
        assert self.pending is not None and self.pending.sent
        stored, self.pending = self.pending, None
        self._parts.stored(stored.begun, name, self.task)
        self.saved_position = (stored.snapshot.record.slot.to, stored.snapshot.window.answered_ms)
        if stored.handover:
            self.lifecycle.happens(LifecycleEvent.HANDED)
        return stored

    @property
    def settled(self) -> bool:
        """True if everything up to the current position is in a checkpoint."""
        if not self.is_running:
            return True  # nothing of its own yet
        return self.pending is None and (self.task.waiting or self.saved_position == self._position())

    def _position(self) -> SavedPosition:
        return self.task.scope.record.position, self.task.windows.ends_ms
