"""Windows that a node may forget, and how it notices that it forgot too much.

Two rules for this file. Windows that a runner of this node still reads are never dropped, whatever the checkpoints
cover. A slot that lacks windows which a runner reads is not taken.

A checkpoint that is durable may turn out to be damaged, and a node may work on a partition that others have long taken
further. So what the checkpoints allow to drop is bounded here by the node's own runners, and
where that came too late the broadcast is read again from its start.
"""

from __future__ import annotations

from collections.abc import Iterable

from holon.job import Job
from nodes.machine.config import ContinuedIncarnation, JobRun
from nodes.machine.durable import KEPT_CHECKPOINTS
from nodes.machine.events import CheckpointLoaded
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.runner import Runner
from wcrdt.codec import DecodeError
from wcrdt.replica.replica import Replica, SlotDelta
from wcrdt.replica.slots import Position
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS


def recorded_through_ms(job: Job, ownership: Ownership) -> int:
    """Windows that end at or before this are needed by no checkpoint that may still be used."""
    answered = ownership.durable_answered(KEPT_CHECKPOINTS)
    return job.droppable_through(answered, ownership.durable_watermark(KEPT_CHECKPOINTS))


def unread_after_ms(job: Job, runners: Iterable[Runner]) -> int:
    """Windows that end at or before this are read by none of these runners again."""
    return min((_unread_after_ms(job, runner) for runner in runners), default=END_OF_TIME_MS)


def _unread_after_ms(job: Job, runner: Runner) -> int:
    if runner.is_loading:
        return BEFORE_TIME_MS
    task = runner.task
    watermark = task.scope.entered_ms if task.waiting else task.watermark_ms
    return job.droppable_through(task.windows.position, watermark)


def lacks_history(job: Job, replica: Replica, runner: Runner) -> bool:
    """True if the replica has dropped what this runner, just restored, will read."""
    slot = replica.slots[runner.partition]
    return (
        replica.dropped_through_ms > _unread_after_ms(job, runner)
        or slot.punctuations_dropped > runner.task.punctuations
    )


def usable(job: Job, delta: SlotDelta, runners: dict[int, Runner], replica: Replica) -> bool:
    """False for a full slot whose maker had dropped what one of these runners still reads, and the replica lacks."""
    lacks = delta.dropped_through_ms > unread_after_ms(job, runners.values())
    if lacks and not replica.is_closed(delta.partition, delta.dropped_through_ms):
        return False
    own = runners.get(delta.partition)
    return own is None or own.is_loading or delta.punctuations - len(delta.recent) <= own.task.punctuations


def taken_over(run: JobRun, loaded: CheckpointLoaded) -> ContinuedIncarnation | None:
    """If the checkpoint is that of the incarnation before: what this one began with.

    Raises ``DecodeError`` where that one is needed and cannot be had: before it, this incarnation has no input.
    """
    if run.continued is None or (loaded.name is not None and loaded.name not in run.continued.checkpoints):
        return None
    if loaded.data is None:
        raise DecodeError(f"it is gone, and the job goes on from there; start again with --reset {loaded.problems}")
    return run.continued


def replayed_from(ownership: Ownership, partition: int, runner: Runner | None) -> Position | None:
    """The oldest position from which the partition may be replayed; None if that is its start."""
    kept = ownership.checkpoints(partition)
    if len(kept) < KEPT_CHECKPOINTS or (runner is not None and runner.is_loading):
        return None
    oldest = kept[-1].record_position
    return oldest if runner is None else min(oldest, runner.task.scope.record.position)
