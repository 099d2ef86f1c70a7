"""The control topic of a transactional job, folded, and trimmed behind checkpoints of what it folds to.

A rule for this file: nothing is deleted before three intact checkpoints that make up for it were read back.
"""

from __future__ import annotations

from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, ControlState, encode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, control_topic

KEPT = 3
RECORDS_A_UNIT = 4
"""So far the topic goes on until its next checkpoint, at least: a checkpoint is as large as three of these."""


class ControlFold:
    """For an observer: ``ownership`` holds for the records before ``offset``; ``read`` goes on to the end."""

    def __init__(self, log: Log, topics: TransactionTopics, units: int) -> None:
        self.ownership = Ownership(units, owners_save=True)
        self.offset = 0
        self._log = log
        self._topic = control_topic(topics)

    def read(self) -> Ownership:
        """Records that are none are passed over, as nodes do it."""
        self.offset = self._topic.read_on(self._log, self.offset, self._begin, self._take)
        return self.ownership

    def _begin(self, state: ControlState, offset: int) -> None:
        self.ownership.restore(state)

    def _take(self, values: list[bytes]) -> None:
        for value in values:
            try:
                message = m.decode_control(value)
            except m.BadMessage:
                continue
            if message.incarnation == FIRST_INCARNATION:
                self.ownership.apply(message)


def trim_control(log: Log, topics: TransactionTopics, checkpoint: ControlCheckpoint) -> None:
    """Write the checkpoint down, then delete what the newest three do not need.

    They are the newest of all that were ever written, so it does not matter who else trims, or has stood still: no
    bound ever moves back, and three checkpoints stay that reach as far as the control topic does. For a thread beside
    the node's loop.
    """
    log.append(topics.control_checkpoints, 0, [encode_control_checkpoint(checkpoint)])
    found = control_topic(topics).intact_checkpoints(log, waits=False)
    kept = sorted(found, key=lambda each: (each[1].offset, each[0]))[-KEPT:]
    if len(kept) < KEPT:
        return
    log.delete_before(topics.control, 0, min(known.offset for _, known in kept))
    log.delete_before(topics.control_checkpoints, 0, min(at for at, _ in kept))
