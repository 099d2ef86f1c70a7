"""The control topic of a streaming job, folded as far as it goes."""

from __future__ import annotations

from typing import Protocol

from holon.job import Job
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.code_check import JobMismatch
from nodes.machine.control_state import ControlState
from nodes.machine.ownership.ownership import Ownership
from nodes.runtime.control_topic import ControlTopic

CHECKPOINTS_READ = 8
"""So many of the newest checkpoints are kept, and looked at."""


class Named(Protocol):
    """A job, or as much of it as its control topic needs."""

    @property
    def name(self) -> str: ...
    @property
    def control_topic(self) -> str: ...


def heartbeat_topic(job: Job) -> str:
    """Liveness is no part of the fold over the control topic, so heartbeats need not be kept with it."""
    return f"_holon.{job.name}.heartbeats"


def control_topic(job: Named) -> ControlTopic:
    """Of the checkpoints only the last records are ever read."""
    return ControlTopic(job.name, job.control_topic, f"_holon.{job.name}.control-checkpoints", CHECKPOINTS_READ)


class History:
    """The fold and the offset up to which it holds; ``read`` goes on.

    ``since`` is where it began: 0, or what the checkpoint says that was used.
    """

    def __init__(self, log: Log, job: Named) -> None:
        self.job = job
        self.ownership = Ownership(1)
        self.offset = self.since = 0
        self._log = log
        self._topic = control_topic(job)
        self.read()

    def read(self) -> None:
        """Go on to the end. Raises ``JobMismatch`` on records of a newer release."""
        self.offset = self._topic.read_on(self._log, self.offset, self._begin, self._take)

    def _begin(self, state: ControlState, offset: int) -> None:
        self.ownership, self.since = Ownership.restored(state), offset

    def _take(self, values: list[bytes]) -> None:
        for value in values:
            try:
                self.ownership.apply(m.decode_control(value))
            except m.BadMessage as error:
                if error.reason is m.BadReason.NEWER_VERSION:
                    text = f"job {self.job.name!r}: its control topic was written by a newer Holon"
                    raise JobMismatch(text) from error

    def failure_key(self, job: Job) -> str:
        """Which failures concern this code: another code, policy or a retry since then is worth another try."""
        retries = self.ownership.retries
        policy = "" if job.on_error == "fail" else f" {job.on_error}"
        return job.program.code_hash() + policy + (f" retry {retries}" if retries else "")
