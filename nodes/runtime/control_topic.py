"""The control topic of a job, read as far as it goes: from the newest checkpoint of it, or from its start.

Two rules for this file. A checkpoint only saves reading, so where none can be used the topic is read from its start.
Where that is gone too, nothing is guessed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nodes.errors import RunFailed
from nodes.log.contract import TRUNCATION_CAUSES, Log, LogTruncated, LogUnavailable, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.code_check import JobMismatch
from nodes.machine.control_state import ControlCheckpoint, ControlState, decode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership

_ATTEMPTS = 5
_POLL_INTERVAL_S, _PATIENCE_S = 0.02, 10.0


@dataclass(frozen=True, slots=True)
class ControlTopic:
    """Of one job: the topic of its control records, and the one of its checkpoints.

    ``last``: so many of the newest checkpoints are looked at.
    """

    job: str
    name: str
    checkpoints: str
    last: int = 1 << 40

    def intact_checkpoints(
        self, log: Log, *, waits: bool = True, unread: list[m.BadMessage] | None = None
    ) -> list[tuple[int, ControlCheckpoint]]:
        """The intact checkpoints with their own offsets, newest first; damaged ones are passed over.

        ``waits`` False: for a thread beside one that works with this log, which is not held while a broker is waited
        for. ``unread`` gets the errors of those that are passed over.
        """
        if self.checkpoints not in log.topics():
            return []
        start, end = log.start_offset(self.checkpoints, 0), log.end_offset(self.checkpoints, 0)
        offset, found = max(start, end - self.last), list[tuple[int, ControlCheckpoint]]()
        deadline_s = time.monotonic() + _PATIENCE_S
        while offset < end:
            chunk = log.read(self.checkpoints, 0, offset) if waits else log.poll(self.checkpoints, 0, offset)
            if chunk.next_offset == offset:
                if waits:
                    break
                if time.monotonic() > deadline_s:
                    where = f"{self.checkpoints}[0]"
                    raise LogUnavailable(f"{where} is not read back from offset {offset} on in {_PATIENCE_S:g} s")
                time.sleep(_POLL_INTERVAL_S)
                continue
            for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
                try:
                    found.append((at, decode_control_checkpoint(value)))
                except m.BadMessage as error:
                    if unread is not None:
                        unread.append(error)
            offset = chunk.next_offset
        return found[::-1]

    def missed(self, log: Log, offset: int = 0) -> ControlCheckpoint | None:
        """The checkpoint for a reader at ``offset`` before it reads on, 0: it knows nothing; None: nothing is missing.

        Raises ``RunFailed`` where what is missing cannot be known, ``JobMismatch`` where a newer release knows it,
        ``LogTruncated`` where the topic has lost its end.
        """
        start = log.start_offset(self.name, 0)
        if offset > 0 and start <= offset:
            return None
        unread = list[m.BadMessage]()
        found = [checkpoint for _, checkpoint in self.intact_checkpoints(log, unread=unread)]
        newest = max(found, key=lambda each: each.offset, default=None)
        if newest is not None and newest.offset > (end := log.end_offset(self.name, 0)):
            # The end is fetched last: checkpoints never lie beyond it.
            raise LogTruncated(
                f"job {self.job!r}: {self.name}[0] ends at offset {end}, and was known up to {newest.offset}: "
                f"acknowledged records are gone ({TRUNCATION_CAUSES}). {self._lost()}"
            )
        if newest is not None and newest.offset >= start:
            return newest
        if start > offset:
            newer = [error for error in unread if error.reason is m.BadReason.NEWER_VERSION]
            if newer:
                raise JobMismatch(
                    f"job {self.job!r}: {self.name}[0] begins at offset {start}, and a newer Holon has written the "
                    f"checkpoint of what came before ({newer[-1]}): go on with nodes of that release"
                )
            raise RunFailed(
                f"job {self.job!r}: {self.name}[0] begins at offset {start}, and {self.checkpoints} holds no intact "
                f"checkpoint of what came before: records of one of them were deleted. {self._lost()}"
            )
        return None

    def _lost(self) -> str:
        return (
            f"The job's state cannot be known; start again under another job name, or delete {self.name} and "
            f"{self.checkpoints}"
        )

    def read_on(
        self,
        log: Log,
        offset: int,
        begin: Callable[[ControlState, int], object],
        take: Callable[[list[bytes]], object],
    ) -> int:
        """Go on from ``offset`` (0: nothing is known) to the end, and give that.

        ``begin`` is called with a checkpoint's state and offset where records before it are gone, or are not needed.
        """
        for attempt in range(_ATTEMPTS):
            try:
                checkpoint = self.missed(log, offset) if offset == 0 or attempt else None
                if checkpoint is not None:
                    begin(checkpoint.state, checkpoint.offset)
                    offset = checkpoint.offset
                while (chunk := log.read(self.name, 0, offset)).next_offset > offset:
                    offset = chunk.next_offset
                    take(list(chunk.values))
                break
            except OffsetOutOfRange:  # trimmed between two reads; there is a newer checkpoint then
                if attempt == _ATTEMPTS - 1:
                    raise
        return offset


class ControlHistory:
    """The fold of one observer: ``ownership`` holds for the records before ``offset``; ``read`` goes on to the end.

    ``since`` is where it began: 0, or the offset of the checkpoint that was used. ``incarnation``: only records of this
    one count; None: of the newest.
    """

    def __init__(self, log: Log, topic: ControlTopic, ownership: Ownership, incarnation: int | None = None) -> None:
        self.ownership = ownership
        self.offset = self.since = 0
        self._log = log
        self._topic = topic
        self._incarnation = incarnation

    def read(self) -> Ownership:
        """Records that are none are passed over, as nodes do it. Raises ``JobMismatch`` at one of a newer release."""
        self.offset = self._topic.read_on(self._log, self.offset, self._begin, self._take)
        return self.ownership

    def _begin(self, state: ControlState, offset: int) -> None:
        self.ownership.restore(state)
        self.since = offset

    def _take(self, values: list[bytes]) -> None:
        for value in values:
            try:
                message = m.decode_control(value)
            except m.BadMessage as error:
                if error.reason is m.BadReason.NEWER_VERSION:
                    text = f"job {self._topic.job!r}: its control topic was written by a newer Holon"
                    raise JobMismatch(text) from error
                continue
            if self._incarnation is None or message.incarnation == self._incarnation:
                self.ownership.apply(message)
