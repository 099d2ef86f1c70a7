"""A transactional job is begun once on a log; whoever comes later checks that it is the same one."""

from __future__ import annotations

import msgspec

from nodes.errors import RunFailed
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.transactions.control import going_on
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics
from transactional.operators import Program


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
    begun = going_on(log, topics)
    if begun is not None:
        return begun.state.started
    for value in log.read(topics.control, 0, 0, max_records=1).values:
        message = m.decode_control(value)
        if isinstance(message, m.JobStarted):
            return message
    return None
