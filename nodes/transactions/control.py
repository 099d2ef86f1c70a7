"""The control topic of a transactional job, folded, and trimmed behind checkpoints of what it folds to.

Two rules for this file: nothing is deleted before three intact checkpoints that make up for it were read back; who
needs what is gone takes the newest of them, or is told by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nodes.errors import RunFailed
from nodes.log.contract import TRUNCATION_CAUSES, Log, LogTruncated, LogUnavailable, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.control_state import (
    ControlCheckpoint,
    ControlState,
    decode_control_checkpoint,
    encode_control_checkpoint,
)
from nodes.machine.ownership import Ownership
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics

KEPT = 3
RECORDS_A_UNIT = 4
"""So far the topic goes on until its next checkpoint, at least: a checkpoint is as large as three of these."""
_ATTEMPTS = 5
_LOOK_S, _PATIENCE_S = 0.02, 10.0


def going_on(log: Log, topics: TransactionTopics, offset: int = 0) -> ControlCheckpoint | None:
    """What who stands at ``offset`` takes over before it reads on, 0: it knows nothing; None: nothing is missing.

    Raises ``RunFailed`` where what is missing cannot be known, ``LogTruncated`` where the topic has lost its end.
    """
    start = log.start_offset(topics.control, 0)
    if offset > 0 and start <= offset:
        return None
    found = [checkpoint for _, checkpoint in _intact(log, topics)]
    newest = max(found, key=lambda each: each.offset, default=None)
    if newest is None or newest.offset < start:
        if start > offset:
            raise RunFailed(
                f"job {topics.job!r}: {topics.control}[0] begins at offset {start}, and {topics.control_checkpoints} "
                f"holds no intact checkpoint of what came before: somebody deleted records of one of them. The job's "
                f"state cannot be known; begin anew, under another name"
            )
        return None
    end = log.end_offset(topics.control, 0)  # asked last: checkpoints never lie beyond it
    if newest.offset > end:
        raise LogTruncated(
            f"job {topics.job!r}: {topics.control}[0] ends at offset {end}, and was known up to {newest.offset}: "
            f"acknowledged records are gone ({TRUNCATION_CAUSES}). The job's state cannot be known; begin anew, under "
            f"another name"
        )
    return newest


def read_control(
    log: Log,
    topics: TransactionTopics,
    offset: int,
    begin: Callable[[ControlState], None],
    take: Callable[[list[bytes]], object],
) -> int:
    """Go on from ``offset`` to the end, and give that. ``begin`` is called where records before it are gone."""
    for attempt in range(_ATTEMPTS):
        try:
            checkpoint = going_on(log, topics, offset)
            if checkpoint is not None:
                begin(checkpoint.state)
                offset = checkpoint.offset
            end = log.end_offset(topics.control, 0)
            while offset < end:
                chunk = log.read(topics.control, 0, offset)
                offset = chunk.next_offset
                take(list(chunk.values))
            break
        except OffsetOutOfRange:  # trimmed between two reads; there is a newer checkpoint then
            if attempt == _ATTEMPTS - 1:
                raise
    return offset


class ControlFold:
    """For who looks on: ``ownership`` holds for what comes before ``offset``; ``read`` goes on to the end."""

    def __init__(self, log: Log, topics: TransactionTopics, units: int) -> None:
        self.ownership = Ownership(units, owners_save=True)
        self.offset = 0
        self._log = log
        self._topics = topics

    def read(self) -> Ownership:
        """Records that are none are passed over, as nodes do it."""
        self.offset = read_control(self._log, self._topics, self.offset, self.ownership.restore, self._take)
        return self.ownership

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
    kept = sorted(_intact(log, topics, waits=False), key=lambda each: (each[1].offset, each[0]))[-KEPT:]
    if len(kept) < KEPT:
        return
    log.delete_before(topics.control, 0, min(known.offset for _, known in kept))
    log.delete_before(topics.control_checkpoints, 0, min(at for at, _ in kept))


def _intact(log: Log, topics: TransactionTopics, *, waits: bool = True) -> list[tuple[int, ControlCheckpoint]]:
    """All checkpoints with their own offsets, in that order; others are passed over.

    ``waits``: no other thread works with this log; else it is not held while a broker is waited for.
    """
    name = topics.control_checkpoints
    if name not in log.topics():  # of a job that the version before has begun
        return []
    offset, end = log.start_offset(name, 0), log.end_offset(name, 0)
    found: list[tuple[int, ControlCheckpoint]] = []
    deadline_s = time.monotonic() + _PATIENCE_S
    while offset < end:
        chunk = log.read(name, 0, offset) if waits else log.follow(name, 0, offset)
        if not waits and chunk.next_offset == offset:
            if time.monotonic() > deadline_s:
                raise LogUnavailable(f"{name}[0] is not read back from offset {offset} on in {_PATIENCE_S:g} s")
            time.sleep(_LOOK_S)
            continue
        for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
            try:
                found.append((at, decode_control_checkpoint(value)))
            except m.BadMessage:
                continue
        offset = max(chunk.next_offset, offset + 1)
    return found
