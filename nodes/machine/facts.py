"""Facts: what a record of the control topic turned out to mean, once the fold has judged it.

Two rules for this file: names are past tense; a fact is the same on every node.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.machine.messages import CheckpointSaved, Crashed, Failed, MergedSaved
from wcrdt.replica.slots import Position


@dataclass(frozen=True, slots=True)
class JobBegan:
    """The first JobStarted of an incarnation: its fingerprint and number of partitions hold for all."""

    incarnation: int
    fingerprint: str
    partitions: int


@dataclass(frozen=True, slots=True)
class JobSuperseded:
    """A higher incarnation took the place of the one that ran; everything before it is void."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class NodeJoined:
    node: str
    number: int


@dataclass(frozen=True, slots=True)
class NodeLeaving:
    node: str


@dataclass(frozen=True, slots=True)
class NodeLeft:
    node: str


@dataclass(frozen=True, slots=True)
class PartitionClaimed:
    """``previous``: the owner until now, None if the partition was free."""

    partition: int
    node: str
    version: int
    previous: str | None


@dataclass(frozen=True, slots=True)
class ClaimLost:
    """Another record was first: the version is ``winner``'s (None if that one has released the partition since)."""

    partition: int
    node: str
    version: int
    winner: str | None


@dataclass(frozen=True, slots=True)
class PartitionReleased:
    """``node`` gave the partition up, which it had under ``version``; ``to`` is whom it expects to take it."""

    partition: int
    to: str | None
    node: str
    version: int


@dataclass(frozen=True, slots=True)
class CheckpointRecorded:
    """The newest checkpoint of its partition from now on."""

    checkpoint: CheckpointSaved

    @property
    def partition(self) -> int:
        return self.checkpoint.partition


@dataclass(frozen=True, slots=True)
class MergedRecorded:
    """The newest merged checkpoint from now on."""

    merged: MergedSaved


@dataclass(frozen=True, slots=True)
class EndDeclared:
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class SlotRequested:
    partition: int
    by: str
    position: Position


@dataclass(frozen=True, slots=True)
class ShardRequested:
    """``by`` is missing something that the partition has added to the keys of partition ``shard``."""

    partition: int
    by: str
    shard: int


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The first failure of a partition under this code."""

    failure: Failed


@dataclass(frozen=True, slots=True)
class RecordAccused:
    """A record at which the function ends its process, under this code: all go on without it."""

    crashed: Crashed


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """Nodes that start from now on retry where the function failed; ``times``: how often that was requested."""

    times: int


@dataclass(frozen=True, slots=True)
class CodeAccepted:
    """An operator has confirmed that the job goes on with this version of its program."""

    version: str


@dataclass(frozen=True, slots=True)
class FleetStopRequested:
    """``nodes`` are to drain, save checkpoints and leave: the members at that moment, sorted."""

    nodes: tuple[str, ...]


Fact = (
    JobBegan
    | JobSuperseded
    | NodeJoined
    | NodeLeaving
    | NodeLeft
    | PartitionClaimed
    | ClaimLost
    | PartitionReleased
    | CheckpointRecorded
    | MergedRecorded
    | EndDeclared
    | SlotRequested
    | ShardRequested
    | JobFailed
    | RecordAccused
    | RetryRequested
    | CodeAccepted
    | FleetStopRequested
)
