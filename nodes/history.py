"""The control topic of a job, folded as far as it goes: from the newest checkpoint of it, or from its start.

Two rules for this file: a checkpoint only saves reading, so where none can be used the topic is read from its start;
where that is gone too, nobody guesses.
"""

from __future__ import annotations

from typing import Protocol

from holon.job import Job
from nodes.code_check import JobMismatch
from nodes.errors import RunFailed
from nodes.log.contract import TRUNCATION_CAUSES, Log, LogTruncated, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, decode_control_checkpoint
from nodes.machine.ownership import Ownership

CHECKPOINTS_READ = 8
"""So many of the newest checkpoints are kept, and looked at."""
ATTEMPTS = 5


class Named(Protocol):
    """A job, or as much of it as its control topic needs."""

    @property
    def name(self) -> str: ...
    @property
    def control_topic(self) -> str: ...


def heartbeat_topic(job: Job) -> str:
    """Liveness is no part of the fold over the control topic, so heartbeats need not be kept with it."""
    return f"_holon.{job.name}.heartbeats"


def control_checkpoints_topic(job: Named) -> str:
    """Where the folded control topic is written now and then; only its last records are ever read."""
    return f"_holon.{job.name}.control-checkpoints"


class History:
    """The fold and the offset up to which it holds; ``read`` goes on.

    ``since`` is where it began: 0, or what the checkpoint says that was used.
    """

    def __init__(self, log: Log, job: Named) -> None:
        self.job = job
        self._log = log
        for attempt in range(ATTEMPTS):
            self._begin()
            try:
                self.read()
                return
            except OffsetOutOfRange:  # the topic was trimmed between two reads; there is a newer checkpoint then
                if attempt == ATTEMPTS - 1:
                    raise

    def _begin(self) -> None:
        start = self._log.start_offset(self.job.control_topic, 0)
        checkpoints = read_control_checkpoints(self._log, self.job)
        end = self._log.end_offset(self.job.control_topic, 0)  # asked last: checkpoints never lie beyond it
        for _, checkpoint in checkpoints:
            if checkpoint.offset > end:
                raise LogTruncated(
                    f"job {self.job.name!r}: {self.job.control_topic}[0] ends at offset {end}, and was known up to "
                    f"{checkpoint.offset}: acknowledged records are gone ({TRUNCATION_CAUSES}). "
                    f"The job's state cannot be known; start again under another job name, or delete "
                    f"the topic and {control_checkpoints_topic(self.job)}"
                )
            if start <= checkpoint.offset:
                self.ownership, self.offset = Ownership.restored(checkpoint.state), checkpoint.offset
                break
        else:
            if start > 0:
                raise RunFailed(
                    f"job {self.job.name!r}: {self.job.control_topic}[0] begins at offset {start}, and "
                    f"{control_checkpoints_topic(self.job)} holds no intact checkpoint of what came before: "
                    f"somebody deleted records of one of them. The job's state cannot be known; start again under "
                    f"another job name, or delete both topics"
                )
            self.ownership, self.offset = Ownership(1), start
        self.since = self.offset

    def read(self) -> None:
        """Go on to the end. Raises ``JobMismatch`` on records of a newer release."""
        topic = self.job.control_topic
        while (chunk := self._log.read(topic, 0, self.offset)).next_offset > self.offset:
            self.offset = chunk.next_offset
            for value in chunk.values:
                try:
                    self.ownership.apply(m.decode_control(value))
                except m.BadMessage as error:
                    if error.reason is m.BadReason.NEWER_VERSION:
                        raise JobMismatch(
                            f"job {self.job.name!r}: its control topic was written by a newer Holon"
                        ) from error

    def failure_key(self, job: Job) -> str:
        """Which failures concern this code: another code, policy or a retry since then is worth another try."""
        retries = self.ownership.retries
        policy = "" if job.on_error == "fail" else f" {job.on_error}"
        return job.program.code_hash() + policy + (f" retry {retries}" if retries else "")


def read_control_checkpoints(log: Log, job: Named, last: int = CHECKPOINTS_READ) -> list[tuple[int, ControlCheckpoint]]:
    """Of the ``last`` records the intact checkpoints with their own offsets, newest first; others are passed over."""
    topic = control_checkpoints_topic(job)
    if topic not in log.topics():
        return []
    start, end = log.start_offset(topic, 0), log.end_offset(topic, 0)
    offset, found = max(start, end - last), []
    while offset < end:
        chunk = log.read(topic, 0, offset)
        for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
            try:
                found.append((at, decode_control_checkpoint(value)))
            except m.BadMessage:
                continue
        if chunk.next_offset == offset:
            break
        offset = chunk.next_offset
    return found[::-1]
