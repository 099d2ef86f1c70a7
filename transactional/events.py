"""Events of a node of a transactional job, for ``TransactionNode.step``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transactional.state.restored import RestoredState


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class EpochsRead:
    """Records of the epochs topic, in order; ``next_offset`` is where the next read begins."""

    values: list[bytes]
    next_offset: int


@dataclass(frozen=True, slots=True)
class CallsRead:
    """Records of the calls of a state partition, in order, from the partition's ``position`` on."""

    partition: int
    offsets: list[int]
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class RequestsRead:
    """Records of a request partition, from the sequencer's position on."""

    sequencer: int
    offsets: list[int]
    values: list[bytes]
    next_offset: int


@dataclass(frozen=True, slots=True)
class PartitionTaken:
    """This node owns a state partition, or is its standby. ``state``: where it begins, None: at the very start.

    ``replied``: the identity of the last reply on the log. ``commits``: records of its commits topic, from the state's
    ``commits_offset`` on; for each that is missing the partition runs an epoch again.
    """

    partition: int
    replied: tuple[int, int] = (0, 0)
    state: RestoredState | None = None
    commits: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class SequencerTaken:
    """This node owns a request partition, and has read the epochs topic; ``start`` is where its records begin."""

    sequencer: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class PartitionLost:
    partition: int


@dataclass(frozen=True, slots=True)
class SequencerLost:
    sequencer: int


@dataclass(frozen=True, slots=True)
class CommitsLogged:
    """Commits of a state partition are on the log up to this offset of its commits topic."""

    partition: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class EpochsCovered:
    """Checkpoints cover all epochs before this one."""

    before: int


@dataclass(frozen=True, slots=True)
class CopiesPaced:
    """From now on a batch of copies ahead of a move may have so many bytes: by the node's clock, so it is an event."""

    batch_bytes: int


@dataclass(frozen=True, slots=True)
class StandbyBegun:
    """From now on this node holds back what the unit writes."""

    unit: int


@dataclass(frozen=True, slots=True)
class StandbyActivated:
    """The owner is late: the next step writes what the standby has held back, and each one after it writes at once."""

    unit: int


@dataclass(frozen=True, slots=True)
class StandbyDeactivated:
    """The standby holds back again what it writes."""

    unit: int


@dataclass(frozen=True, slots=True)
class StandbyPromoted:
    """This node owns the unit: the next step writes what the standby has held back."""

    unit: int


@dataclass(frozen=True, slots=True)
class RepliesLogged:
    """Replies of a state partition are on the log up to this name (epoch, first number)."""

    partition: int
    last: tuple[int, int]


Event = (
    Ticked
    | EpochsRead
    | CallsRead
    | RequestsRead
    | PartitionTaken
    | SequencerTaken
    | PartitionLost
    | SequencerLost
    | CommitsLogged
    | EpochsCovered
    | CopiesPaced
    | StandbyBegun
    | StandbyActivated
    | StandbyDeactivated
    | StandbyPromoted
    | RepliesLogged
)
