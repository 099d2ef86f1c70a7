"""The control topic of a streaming job, folded as far as it goes."""

from __future__ import annotations

from typing import Protocol

from holon.job import Job
from nodes.log.contract import Log
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.ownership.schemas import SchemaFold
from nodes.runtime.control_topic import ControlHistory, ControlTopic

CHECKPOINTS_READ = 8
"""So many of the newest checkpoints are kept, and looked at."""


class ControlledJob(Protocol):
    """A job, or as much of it as its control topic needs."""

    @property
    def name(self) -> str: ...
    @property
    def control_topic(self) -> str: ...


def heartbeat_topic(job: Job) -> str:
    """Liveness is no part of the fold over the control topic, so heartbeats need not be kept with it."""
    return f"_holon.{job.name}.heartbeats"


def control_topic(job: ControlledJob) -> ControlTopic:
    """Of the checkpoints only the last records are ever read."""
    return ControlTopic(job.name, job.control_topic, f"_holon.{job.name}.control-checkpoints", CHECKPOINTS_READ)


class JobControlHistory(ControlHistory):
    """Of a streaming job, read to the end."""

    def __init__(self, log: Log, job: ControlledJob) -> None:
        super().__init__(log, control_topic(job), Ownership(1))
        self.read()

    def failure_key(self, job: Job) -> str:
        """Which failures concern this code: another code, policy or a retry since then is worth another try."""
        retries = self.ownership.retries
        policy = "" if job.on_error == "fail" else f" {job.on_error}"
        return job.program.code_hash() + policy + (f" retry {retries}" if retries else "")


def schema_verdicts(log: Log, job: ControlledJob) -> SchemaFold:
    """The verdicts of a job's nodes on records that name schemas; none where it never ran."""
    return JobControlHistory(log, job).ownership.schemas if job.control_topic in log.topics() else SchemaFold()
