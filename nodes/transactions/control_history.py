"""The control topic of a transactional job, folded, and trimmed behind checkpoints of what it folds to.

A rule for this file: nothing is deleted before three intact checkpoints that make up for it were read back.
"""

from __future__ import annotations

from nodes.log.contract import Log
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership
from nodes.runtime.control_topic import ControlHistory
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, control_topic

KEPT = 3
RECORDS_A_UNIT = 4
"""So far the topic goes on until its next checkpoint, at least: a checkpoint is as large as three of these."""


def control_history(log: Log, topics: TransactionTopics, units: int) -> ControlHistory:
    """For an observer, not read yet."""
    return ControlHistory(log, control_topic(topics), Ownership(units, owners_save=True), FIRST_INCARNATION)


def trim_control(log: Log, topics: TransactionTopics, checkpoint: ControlCheckpoint) -> None:
    """Write the checkpoint down, then delete what the newest three do not need.

    They are the newest of all that were ever written, so other nodes that trim, or were paused, do not matter. No bound
    ever moves back, and three checkpoints stay that reach as far as the control topic does. For a thread beside the
    node's loop.
    """
    log.append(topics.control_checkpoints, 0, [encode_control_checkpoint(checkpoint)])
    found = control_topic(topics).intact_checkpoints(log, waits=False)
    kept = sorted(found, key=lambda each: (each[1].offset, each[0]))[-KEPT:]
    if len(kept) < KEPT:
        return
    log.delete_before(topics.control, 0, min(known.offset for _, known in kept))
    log.delete_before(topics.control_checkpoints, 0, min(at for at, _ in kept))
