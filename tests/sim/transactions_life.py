"""A node of a simulated transactional job between two crashes, and the topics that it writes to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from transactional.epochs.appends import Append, AppendCalls, AppendCommit, AppendEpochs
from transactional.epochs.trimming import Trims
from transactional.node import TransactionNode
from transactional.state.snapshots import PartitionState

EPOCHS, CALLS, REQUESTS, REPLIES, COMMITS = "epochs", "calls", "requests", "replies", "commits"
Chain: TypeAlias = tuple[PartitionState, ...]
"""A snapshot, behind those that it rests upon."""


@dataclass
class Life:
    """One node between two crashes: its state machine, where it reads, and what it has not written yet.

    Writes to one partition of the log arrive in order; those to different ones may overtake each other.
    """

    node: TransactionNode
    begun: int = 0  # up to this epoch it knows nothing
    outbox: dict[tuple[str, int], deque[bytes]] = field(default_factory=dict)
    called: dict[tuple[int, str], tuple[str, int]] = field(default_factory=dict)  # external calls
    trims: Trims | None = None
    chains: dict[int, Chain] = field(default_factory=dict)
    """By partition, what its next snapshot rests upon."""
    asleep_until: int = 0
    """It stands still until the world has had so many acts."""

    def keep(self, appends: list[Append]) -> None:
        for append in appends:
            match append:
                case AppendEpochs(value):
                    where = EPOCHS, 0
                case AppendCalls(partition, value):
                    where = CALLS, partition
                case AppendCommit(partition, value):
                    where = COMMITS, partition
                case _:
                    where, value = (REPLIES, append.partition), append.value
            self.outbox_of(*where).append(value)

    def outbox_of(self, topic: str, partition: int) -> deque[bytes]:
        return self.outbox.setdefault((topic, partition), deque())

    @property
    def busy(self) -> bool:
        return any(self.outbox.values())
