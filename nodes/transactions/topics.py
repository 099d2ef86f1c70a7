"""The topics of a transactional job, and how a job is found and begun on a log."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from nodes.errors import RunFailed, UnknownName
from nodes.log.contract import Log
from nodes.machine import messages as m
from transactional.operators import Program

HEARTBEAT_RETENTION_MS = 60_000
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
    def control(self) -> str:
        return f"{self.job}-txn-control"

    @property
    def heartbeats(self) -> str:
        return f"{self.job}-txn-heartbeats"


def create_topics(log: Log, program: Program, sequencers: int) -> TransactionTopics:
    """Make what is not there; raises ``TopicExists`` where a topic has another number of partitions."""
    topics = TransactionTopics(program.name)
    log.create_topic(topics.control, 1)
    log.create_topic(topics.heartbeats, 1, retention_ms=HEARTBEAT_RETENTION_MS)
    log.create_topic(topics.requests, sequencers)
    log.create_topic(topics.calls, program.partitions)
    log.create_topic(topics.commits, program.partitions)
    log.create_topic(topics.replies, program.partitions)
    log.create_topic(topics.epochs, 1)
    return topics


def begin(log: Log, topics: TransactionTopics, program: Program, sequencers: int) -> None:
    """Start the job, or check that it was started alike. Raises ``RunFailed``."""
    mine = fingerprint(program, sequencers)
    started = _started(log, topics)
    if started is None:
        units = sequencers + program.partitions
        log.append(topics.control, 0, [m.encode(m.JobStarted(FIRST_INCARNATION, mine, units))])
        started = _started(log, topics)
    if started is None or started.fingerprint != mine:
        found = "" if started is None else started.fingerprint
        raise RunFailed(
            f"job {program.name!r} was started as {found}, and is {mine} now: operators keep their number of "
            f"partitions; give the program another name to start anew"
        )


def fingerprint(program: Program, sequencers: int) -> str:
    """What must not change while a job lives: where keys are."""
    operators = [[each.name, each.partitions, each.colocate] for _, each in sorted(program.operators.items())]
    return msgspec.json.encode({"operators": operators, "sequencers": sequencers}).decode()


def _started(log: Log, topics: TransactionTopics) -> m.JobStarted | None:
    for value in log.read(topics.control, 0, 0, max_records=1).values:
        message = m.decode_control(value)
        if isinstance(message, m.JobStarted):
            return message
    return None


def job_on(log: Log, name: str | None) -> TransactionTopics:
    """The topics of the named job, or of the only one on this log. Raises ``UnknownName``."""
    jobs = [topic.removesuffix(_SUFFIX) for topic in log.topics() if topic.endswith(_SUFFIX)]
    if name is None and len(jobs) == 1:
        return TransactionTopics(jobs[0])
    if name not in jobs:
        raise UnknownName("transactional job", name or "(say which with --job)", jobs)
    return TransactionTopics(name)
