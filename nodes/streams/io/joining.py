"""The driver's work for joining nodes: merged checkpoints, checkpoints of the control topic, and trimming.

Two rules for this file. Nothing is deleted of a topic before a checkpoint has been read back with which a starting node
can do without it. A topic that cannot be trimmed costs space, and harms nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing, CheckpointNewer
from nodes.checkpoints.file_names import MERGED, CheckpointKey, own_name
from nodes.checkpoints.store import CheckpointStore, StoreUnavailable
from nodes.errors import Unreachable
from nodes.log.contract import Log, LogError, OffsetOutOfRange, TopicPartition
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast.merged_checkpoints import decode_merged
from nodes.machine.config import JobRun
from nodes.machine.durable import KEPT_MERGED
from nodes.machine.ownership.ownership import Ownership
from nodes.streams.control_history import CHECKPOINTS_READ, control_topic
from nodes.streams.jobs import JobTopics
from wcrdt.replica.replica import SlotDelta


class FellBehind(OffsetOutOfRange, Unreachable):
    """The job's own topics were trimmed past this node's position: it has to start again (exit code 4)."""


class Joining:
    """``ownership`` is the node's own fold: its merged checkpoints are what the log is kept for."""

    def __init__(
        self, log: Log, checkpoints: CheckpointStore, run: JobRun, ownership: Ownership, report: Callable[[str], None]
    ) -> None:
        self.log = log
        self.checkpoints = checkpoints
        self.run = run
        self.ownership = ownership
        self.topics = JobTopics.of(run)
        self.report = report

    # --- to begin, and to begin again ---------------------------------------------------------------------------

    def first_intact(self, kept: Sequence[m.MergedSaved]) -> e.MergedLoaded | None:
        """The loaded ones of these, in their order; it may wait for the store, so the node's loop never calls it."""
        for saved in kept:
            slots = self._load(saved)
            if slots is not None:
                return e.MergedLoaded(slots, list(saved.broadcast_offsets))
        return None

    def has_start(self, partitions: Sequence[int]) -> bool:
        """Whether the beginning of these partitions' broadcast is there."""
        return all(self.log.start_offset(self.topics.broadcast, p) == 0 for p in partitions)

    def demand_start(self, partitions: Sequence[int]) -> None:
        """Raises ``FellBehind`` if it is not."""
        for partition in partitions:
            start = self.log.start_offset(self.topics.broadcast, partition)
            if start > 0:
                raise self.fell_behind(self.topics.broadcast, partition, 0, start)

    def _load(self, saved: m.MergedSaved) -> list[SlotDelta] | None:
        try:
            data = self.checkpoints.load(own_name(self.run.job.name, saved.name))
            return decode_merged(data, self.run.incarnation, self.run.partitions)
        except (CheckpointDamaged, CheckpointMissing, CheckpointNewer, m.BadMessage) as error:
            self.report(f"merged checkpoint {saved.name}: {error}; taking another one, or the log")
            return None

    def fell_behind(self, topic: str, partition: int, offset: int, start: int | None = None) -> FellBehind:
        """The error of a node that needs records of the job's own topics that were deleted."""
        start = self.log.start_offset(topic, partition) if start is None else start
        return FellBehind(
            f"job {self.run.job.name!r}: offset {offset} of {topic}[{partition}] is needed, which begins at {start} "
            f"now: this node was stopped for long, or no merged checkpoint is intact. Start it again: it goes on from "
            f"the newest merged checkpoint, which running nodes save at intervals; if no node runs and "
            f"this comes again, only --reset is left"
        )

    # --- for others -------------------------------------------------------------------------------------------------

    def saving(self, effect: x.SaveMerged) -> Callable[[], e.Event]:
        """A saver's task to make it durable, and to check that it is."""
        job, incarnation = self.run.job.name, self.run.incarnation
        key = CheckpointKey(job, incarnation, MERGED, (effect.control_offset, 0), (effect.frontier_ms, 0))
        kept = [saved.name for saved in self.ownership.merged()]

        def save() -> e.Event:
            name = self.checkpoints.save(key, effect.data)
            saved = m.MergedSaved(incarnation, "-", name, effect.control_offset, effect.broadcast_offsets)
            intact = self._load(saved) is not None  # so that three damaged ones never replace three intact ones
            if intact:
                self.checkpoints.prune(job, incarnation, MERGED, kept)
            return e.MergedStored(name if intact else None, effect.control_offset, effect.broadcast_offsets)

        return save

    def writing_control_checkpoint(
        self, effect: x.WriteControlCheckpoint, contributions_read: Mapping[TopicPartition, int] | None = None
    ) -> Callable[[], e.Event | None]:
        """A saver's task to write it, and then to delete the records of the topics that no node needs any more.

        ``contributions_read``: where this node reads on the topic of shards.
        """
        kept = self.ownership.merged()

        def write() -> None:
            try:
                at = self.log.append(self.topics.control_checkpoints, 0, [effect.value]).first_offset
                if effect.trims and self._trim(kept, at):
                    for where, offset in (contributions_read or {}).items():
                        self.log.delete_before(*where, min(offset, self.log.end_offset(*where)))
            except (LogError, StoreUnavailable) as error:
                self.report(f"the job's own topics are not trimmed now: {error}")

        return write

    def _trim(self, kept: Sequence[m.MergedSaved], checkpoint_at: int) -> bool:
        """Trim to what the oldest of three needs, if all three are intact: who falls back finds what it needs.

        False if they are not.

        The checkpoints made with these three are all of later offsets of the control topic.
        """
        if len(kept) < KEPT_MERGED or any(self._load(saved) is None for saved in kept):
            return False
        found = control_topic(self.run.job).intact_checkpoints(self.log)
        if not any(checkpoint.offset >= kept[-1].control_offset for _, checkpoint in found):
            return False  # the one that was just written is damaged, and there is no other
        for partition, offset in enumerate(kept[-1].broadcast_offsets):
            # A checkpoint from before a truncation of the broadcast names an offset that the log may not have reached.
            end = self.log.end_offset(self.topics.broadcast, partition)
            self.log.delete_before(self.topics.broadcast, partition, min(offset, end))
        self.log.delete_before(self.topics.control, 0, kept[-1].control_offset)
        self.log.delete_before(self.topics.control_checkpoints, 0, max(0, checkpoint_at + 1 - CHECKPOINTS_READ))
        return True


__all__ = ["FellBehind", "Joining"]
