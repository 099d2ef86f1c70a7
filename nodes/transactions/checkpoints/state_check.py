"""Before a function is blamed for what differs from the log: whether the state is right that its partition began with.

A checkpoint is compared with itself (its chain is whole, its files are intact) and with the commits on the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointError
from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.log.contract import Log, LogError
from nodes.transactions.checkpoints import chains
from nodes.transactions.orphaned_work import commits_from
from nodes.transactions.topics import TransactionTopics
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.messages import BadRecord, Commit, commit_message
from transactional.execution.tracing import shown
from transactional.operators import StateKey


class StateWrong(RunFailed):
    """A partition began with a checkpoint whose state is not what the log has made of it."""


@dataclass(slots=True)
class _Written:
    """The commits of a key on the log, up to the checkpoint's epoch."""

    epoch: int
    value: bytes | None
    before: set[bytes | None] = field(default_factory=set)


def blamed(
    error: Nondeterministic, begun_with: Mapping[int, str], store: CheckpointStore, log: Log, topics: TransactionTopics
) -> RunFailed:
    """The error in place of ``error``; ``begun_with``: the checkpoint of each partition that began with one."""
    checked: list[str] = []
    for partition, name in sorted(begun_with.items()):
        try:
            why = _wrong(partition, name, store, log, topics)
        except (CheckpointError, LogError):
            continue  # it was replaced since, or cannot be read now
        if why is not None:
            return StateWrong(
                f"state partition {partition} began with checkpoint {name}, and {why}. So no function need be the "
                f"cause of what differs now. Delete that file: nodes begin with an older one then, or with the log. "
                f"What differs: {error}"
            )
        checked.append(f"{partition}")
    intact = f"\nThe checkpoints that state partitions {', '.join(checked)} began with are whole" if checked else ""
    return RunFailed(f"{error}{intact}")


def _wrong(partition: int, name: str, store: CheckpointStore, log: Log, topics: TransactionTopics) -> str | None:
    """How the state of this checkpoint is wrong; None: as far as can be known, it is right."""
    try:
        newest, chain = chains.chain_of(store, name)
        written = _written(log, topics, partition, newest.ledger.done)
        held: dict[StateKey, bytes | None] = dict.fromkeys(written)
        for state in chain:
            held.update(((row[0], row[1]), row[2]) for row in state.items if row[:2] in written)
    except CheckpointDamaged as error:
        return f"{error}"
    for key, last in sorted(written.items()):
        if held[key] != last.value and held[key] in last.before:
            return (
                f"there {key[0]} {key[1]!r} is {shown(held[key])}, as it was once; by the commits on the log it "
                f"is {shown(last.value)} since epoch {last.epoch}, and the checkpoint is of epoch {newest.ledger.done}"
            )
    return None


def _written(log: Log, topics: TransactionTopics, partition: int, done: int) -> dict[StateKey, _Written]:
    """The writes of commits up to this epoch. A commit may be missing, so what they do not hold proves nothing."""
    commits: dict[int, Commit] = {}
    for value in commits_from(log, topics, partition, 0):
        try:
            message = commit_message(value)
        except BadRecord:
            continue
        if isinstance(message, Commit) and message.partition == partition and message.epoch <= done:
            commits.setdefault(message.epoch, message)
    found: dict[StateKey, _Written] = {}
    begins_at_first = log.start_offset(topics.commits, partition) == 0
    for epoch in sorted(commits):
        for operator, key, value in commits[epoch].writes:
            before = found.get((operator, key))
            if before is None:
                known: set[bytes | None] = {None} if begins_at_first else set()
                found[operator, key] = _Written(epoch, value, known - {value})
            elif before.value != value:
                found[operator, key] = _Written(epoch, value, (before.before | {before.value}) - {value})
    return found
