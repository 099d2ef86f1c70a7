"""A job begins with state: each partition has a checkpoint before its first epoch, as if it had saved one.

So a million records need not be sent one by one before a run is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.log import Log
from nodes.machine import messages as m
from nodes.transactions.checkpoints.chains import save_file
from nodes.transactions.job_start import begin, started
from nodes.transactions.topics import FIRST_INCARNATION, checkpoint_job, create_topics
from transactional.epochs.ledger import Ledger
from transactional.operators import Program, StateKey
from transactional.state.snapshots import FORMAT_VERSION, PartitionState, StateSnapshot
from wcrdt.replica.slots import WINDOW_START


def begin_with(
    log: Log,
    store: CheckpointStore,
    program: Program,
    sequencers: int,
    keys: Iterable[StateKey],
    value: Callable[[StateKey], bytes],
) -> None:
    """Begin the job with these entities. Nodes are started afterwards.

    ``value``: as it is stored, and called for one partition after the other, so that memory holds the values of one.
    Raises ``RunFailed`` where the log has the job already.
    """
    topics = create_topics(log, program, sequencers)
    if started(log, topics) is not None:
        raise RunFailed(f"job {program.name!r} has begun on this log: give a new one")
    begin(log, topics, program, sequencers)
    homes: list[list[StateKey]] = [[] for _ in range(program.partitions)]
    for key in keys:
        homes[program.place(*key)].append(key)
    ledger, (answered, stage) = Ledger(program, sequencers).snapshot(), WINDOW_START
    log.append(topics.control, 0, [m.encode(m.Hello(FIRST_INCARNATION, "-", -1, 1))])
    for partition, mine in enumerate(homes):
        unit = sequencers + partition
        state = PartitionState(FORMAT_VERSION, partition, 0, 0, 0, ledger, [], [], [], since=None)
        data = StateSnapshot(state, {key: value(key) for key in mine}).encoded()
        part = save_file(store, checkpoint_job(program.name), unit, (0, 0), (), data)
        claim = m.Claim(FIRST_INCARNATION, "-", unit, 1)  # a checkpoint counts from who has the partition
        report = m.CheckpointSaved(FIRST_INCARNATION, "-", unit, 1, part.name, 0, 0, answered, stage)
        log.append(topics.control, 0, [m.encode(claim), m.encode(report)])
    log.append(topics.control, 0, [m.encode(m.Goodbye(FIRST_INCARNATION, "-", 1))])
