"""Whether another version of a program can read all that a job has stored: each value is tried.

The newest checkpoint of each state partition and what commits have written since. Rules for this file: nothing is
written, nodes may be at work, and what they write while this runs is not tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import own_name
from nodes.checkpoints.store import CheckpointStore
from nodes.log.contract import Log
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.checkpoints.chains import chain_of
from nodes.transactions.orphaned_work import commits_from
from nodes.transactions.topics import TransactionTopics, checkpoint_job
from transactional.describing import read_as
from transactional.epochs.messages import BadRecord, Commit, RecordPiece, commit_message
from transactional.epochs.pieces import RecordPieces
from transactional.operators import Program, StateKey
from transactional.state.snapshots import Row
from transactional.state.values import BadValue


class StoredProblem(msgspec.Struct):
    """An operator whose values do not fit: the first key, why, and how many there are."""

    operator: str
    key: str
    problem: str
    count: int = 1


class Tried(msgspec.Struct):
    """How many values were tried, and of how many partitions there was a checkpoint."""

    values: int = 0
    checkpoints: int = 0
    problems: list[StoredProblem] = []


def tried(log: Log, store: CheckpointStore, ownership: Ownership, program: Program, sequencers: int) -> Tried:
    """Raises ``CheckpointDamaged`` or ``CheckpointMissing`` where no checkpoint of a partition can be read."""
    topics, found = TransactionTopics(program.name), Tried()
    problems: dict[str, StoredProblem] = {}
    for unit in range(sequencers, ownership.partitions):
        rows = _rows(log, store, ownership, topics, unit, unit - sequencers)
        found.checkpoints += ownership.checkpoint(unit) is not None
        for (operator, key), value in rows.items():
            if value is None:
                continue
            found.values += 1
            problem = _problem(program, operator, value)
            if problem is None:
                continue
            if operator in problems:
                problems[operator].count += 1
            else:
                problems[operator] = StoredProblem(operator, key, problem)
    found.problems = [problems[name] for name in sorted(problems)]
    return found


def _problem(program: Program, operator: str, value: bytes) -> str | None:
    declared = program.operators.get(operator)
    if declared is None:
        return "the program has no such operator, and this one has state"
    try:
        read_as(program, declared, value)
    except BadValue as error:
        return str(error)
    return None


def _rows(
    log: Log, store: CheckpointStore, ownership: Ownership, topics: TransactionTopics, unit: int, partition: int
) -> dict[StateKey, bytes | None]:
    """Of one partition; where the newest checkpoint is damaged, of one before it and the commits since."""
    rows: dict[StateKey, bytes | None] = {}
    kept, offset, epoch = ownership.checkpoints(unit), 0, 0
    for number, saved in enumerate(kept):
        try:
            newest, chain = chain_of(store, own_name(checkpoint_job(topics.job), saved.name))
            rows = {(operator, key): value for state in chain for operator, key, value in state.items}
        except (CheckpointDamaged, CheckpointMissing):
            if number == len(kept) - 1:
                raise
            continue
        offset, epoch = newest.commits_offset, newest.ledger.done
        break
    for operator, key, value in _committed(commits_from(log, topics, partition, offset), partition, epoch):
        rows[operator, key] = value
    return rows


def _committed(values: Iterable[bytes], partition: int, after: int) -> Iterator[Row]:
    """The writes of commits of later epochs, in the order of these."""
    pieces, found = RecordPieces(), dict[int, Commit]()
    for value in values:
        try:
            message = commit_message(value)
            if isinstance(message, RecordPiece):
                whole = pieces.take(message)
                message = message if whole is None else commit_message(whole)
        except BadRecord:
            continue
        if isinstance(message, Commit) and message.partition == partition and message.epoch > after:
            found.setdefault(message.epoch, message)
    for epoch in sorted(found):
        yield from found[epoch].writes
