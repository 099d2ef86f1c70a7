"""The topics of a transactional job, and how a job is found on a log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nodes.errors import UnknownName
from nodes.log.contract import Log
from nodes.runtime.control_topic import ControlTopic
from nodes.runtime.heartbeat_topics import HEARTBEAT_RETENTION_MS
from transactional.operators import Program

FIRST_INCARNATION = 1
_SUFFIX = "-txn-epochs"


@dataclass(frozen=True, slots=True)
class TransactionTopics:
    """Names, all from the job's."""

    job: str

    @property
    def requests(self) -> str:
        return f"{self.job}-txn-requests"

    @property
    def epochs(self) -> str:
        return f"{self.job}{_SUFFIX}"

    @property
    def calls(self) -> str:
        return f"{self.job}-txn-calls"

    @property
    def commits(self) -> str:
        return f"{self.job}-txn-commits"

    @property
    def replies(self) -> str:
        return f"{self.job}-txn-replies"

    @property
    def of_state_partitions(self) -> tuple[str, ...]:
        """The topics that have a partition for each of the state."""
        return self.calls, self.commits, self.replies

    @property
    def control(self) -> str:
        return f"{self.job}-txn-control"

    @property
    def control_checkpoints(self) -> str:
        """The fold of the control topic, now and then; it is trimmed behind that."""
        return f"{self.job}-txn-control-checkpoints"

    @property
    def heartbeats(self) -> str:
        return f"{self.job}-txn-heartbeats"


def checkpoint_job(job: str) -> str:
    """The name of the job in those of its checkpoints: a streaming job may have the same one."""
    return f"{job}-txn"


def control_topic(topics: TransactionTopics) -> ControlTopic:
    """The control topic of the job, to be read."""
    return ControlTopic(topics.job, topics.control, topics.control_checkpoints)


def create_topics(log: Log, program: Program, sequencers: int) -> TransactionTopics:
    """Make what is not there; raises ``TopicExists`` where a topic has another number of partitions.

    Those of state partitions may have more, since their number may grow.
    """
    topics = TransactionTopics(program.name)
    log.create_topic(topics.control, 1)
    log.create_topic(topics.control_checkpoints, 1)
    log.create_topic(topics.heartbeats, 1, retention_ms=HEARTBEAT_RETENTION_MS)
    log.create_topic(topics.requests, sequencers)
    known = log.topics()
    for topic in topics.of_state_partitions:
        if known.get(topic, 0) <= program.partitions:
            log.create_topic(topic, program.partitions)
    log.create_topic(topics.epochs, 1)
    return topics


def jobs_among(topics: Iterable[str]) -> list[str]:
    """The transactional jobs that these are the topics of."""
    return [topic.removesuffix(_SUFFIX) for topic in topics if topic.endswith(_SUFFIX)]


def job_on(log: Log, name: str | None) -> TransactionTopics:
    """The topics of the named job, or of the only one on this log. Raises ``UnknownName``."""
    jobs = jobs_among(log.topics())
    if name is None and len(jobs) == 1:
        return TransactionTopics(jobs[0])
    if name not in jobs:
        raise UnknownName("transactional job", name or "(name one with --job)", jobs)
    return TransactionTopics(name)
