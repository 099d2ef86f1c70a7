"""Waiting until the nodes of a transactional job have shared out its partitions."""

from __future__ import annotations

import time

from nodes.errors import RunFailed
from nodes.log.contract import Log, TopicPartition
from nodes.machine.ownership.assignment import grown, shares
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.control_history import control_history
from nodes.transactions.topics import TransactionTopics

_WAIT_S = 0.2


def wait_until_settled(
    log: Log, topics: TransactionTopics, groups: tuple[int, ...], nodes: int, limit_s: float
) -> None:
    """Until so many nodes have joined, and each owns what it is to have. Raises ``RunFailed`` after ``limit_s``."""
    fold = control_history(log, topics, sum(groups))
    deadline = time.monotonic() + limit_s
    while not _is_settled(ownership := fold.read(), groups, nodes):
        if time.monotonic() > deadline:
            raise RunFailed(
                f"job {topics.job!r}: {len(ownership.members)} of {nodes} nodes have joined in {limit_s:g} s, and its "
                f"partitions are not shared out among them; see the standard error of the nodes"
            )
        log.wait({TopicPartition(topics.control, 0): fold.offset}, _WAIT_S)


def _is_settled(ownership: Ownership, groups: tuple[int, ...], nodes: int) -> bool:
    owners = ownership.owners()
    return len(ownership.members) == nodes and owners == shares(
        grown(groups, len(owners)), sorted(ownership.members), owners
    )
