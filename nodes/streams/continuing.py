"""A job that has come to the end of its input goes on behind it: its next incarnation begins with what the last had.

The end closed every window, on all nodes and for good. So the job does not take it back: a new incarnation, with topics
of its own, begins from the final checkpoints. Its outputs carry on the identities of the first one, so that readers see
one sequence.
"""

from __future__ import annotations

import logging

import msgspec

from holon.job import Job
from holon.tracks.parts import snapshot_of
from holon.tracks.snapshot import Snapshot
from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.config import ContinuedIncarnation, origin_of
from nodes.machine.ownership.commands import VERSION
from nodes.machine.ownership.ownership import Ownership
from nodes.streams.control_history import JobControlHistory
from nodes.streams.io.partition_checkpoints import load_with_parts
from nodes.streams.jobs import Description, create_topics, live_guard_ms
from nodes.time_texts import event_time
from wcrdt.codec import DecodeError
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

logger = logging.getLogger(__name__)


def continue_job(log: Log, job: Job, store: CheckpointStore, *, bounded: bool = False) -> None:
    """Start the incarnation that goes on where the job has ended. If somebody else did so first, that one counts.

    ``bounded``: whether what it goes on with has an end, as for ``open_job``.

    Raises ``RunFailed`` where what has ended cannot be gone on with.
    """
    history = JobControlHistory(log, job)
    ended, started = history.ownership, history.ownership.started
    if started is None or not ended.all_done():
        return
    names, closed_ms = _taken_over(job, ended, store)
    continued = ContinuedIncarnation(origin_of(started), names, closed_ms)
    if closed_ms > BEFORE_TIME_MS:
        logger.warning(
            "job %r goes on behind the end of its input: windows are answered through %s, so records that only windows "
            "up to there take are late, for shorter windows too",
            job.name,
            event_time(closed_ms),
        )
    described = started.description | {m.CONTINUES: msgspec.json.encode(continued).decode()}
    run = msgspec.json.decode(described["run"], type=Description)
    if run.live_guard_ms is not msgspec.UNSET:
        run.live_guard_ms = live_guard_ms(bounded)
        described["run"] = msgspec.json.encode(run).decode()
    if ended.codes:
        described[VERSION] = ended.codes[-1]  # as the state is now, whatever code began the job
    following = m.JobStarted(ended.incarnation + 1, started.fingerprint, started.partitions, described)
    create_topics(log, job, following.incarnation, started.partitions)
    log.append(job.control_topic, 0, [m.encode(following)])


def _taken_over(job: Job, ended: Ownership, store: CheckpointStore) -> tuple[list[str], int]:
    """Names of the final checkpoints, and up to where their windows are answered."""
    if job.window_retention_ms > 0:
        raise _refused(
            job, "its handlers read windows back (window_retention_ms), and the end of the input has dropped them"
        )
    names: list[str] = []
    closed_ms = 0
    for partition in range(ended.partitions):
        saved = ended.checkpoint(partition)
        assert saved is not None and saved.done, "all partitions are done"
        closing = _load(job, store, saved.name).closing()
        if closing is None:
            raise _refused(job, "an older release has ended it, which did not keep what was closed then")
        names.append(saved.name)
        closed_ms = closing if partition == 0 else max(closed_ms, closing)
    if closed_ms >= END_OF_TIME_MS:
        raise _refused(job, "it has a window over all time, which is answered")
    return names, closed_ms


def _load(job: Job, store: CheckpointStore, name: str) -> Snapshot:
    try:
        return snapshot_of(*load_with_parts(store, job.name, name))
    except (CheckpointDamaged, CheckpointMissing, DecodeError) as error:
        raise _refused(job, f"the checkpoint that it ended with cannot be used: {error}") from error


def _refused(job: Job, why: str) -> RunFailed:
    return RunFailed(f"job {job.name!r} has ended and cannot be continued: {why}; --reset starts it anew")
