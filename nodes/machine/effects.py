"""Effects: what the shell is to do, in the order in which they are given. Names are imperatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from nodes.machine.events import OutputPartition
from wcrdt.replica.slots import Position


@dataclass(frozen=True, slots=True)
class WriteControl:
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteHeartbeat:
    """For the node's ``group`` in a large fleet; None: for everybody."""

    value: bytes
    group: int | None = None


@dataclass(frozen=True, slots=True)
class WriteBroadcast:
    """To the broadcast partition of input partition ``partition``; acknowledged under ``ticket``."""

    partition: int
    version: int
    ticket: int
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteContribution(WriteBroadcast):
    """To partition ``shard`` of the topic of shards instead."""

    shard: int = 0


@dataclass(frozen=True, slots=True)
class WriteOutput:
    """A run of results for one output partition, all or nothing, acknowledged under ``ticket``."""

    partition: int
    version: int
    ticket: int
    to: OutputPartition
    values: Sequence[bytes]
    headers: Sequence[bytes]
    keys: list[bytes | None]


@dataclass(frozen=True, slots=True)
class LoadCheckpoint:
    """Load the first intact one of ``names`` (newest first)."""

    partition: int
    version: int
    names: list[str]


@dataclass(frozen=True, slots=True)
class ReadTail:
    """Find the newest identities of the source partition in all output partitions, from these offsets on.

    ``known``: how far they have to go at least.
    """

    partition: int
    version: int
    since: dict[str, dict[int, int]]
    known: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Save it in so many ``copies``; ``rests_on``: names of the checkpoints that it depends on, if it is a part."""

    partition: int
    version: int
    ticket: int
    record_position: Position
    answered: Position
    data: bytes
    copies: int = 1
    rests_on: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RewindBroadcast:
    """Read the broadcast topic again from its start (of one partition, or None: of all).

    Where the start is gone, the slots of the oldest merged checkpoint take its place.
    """

    partition: int | None = None


@dataclass(frozen=True, slots=True)
class ReadBroadcastAgain:
    """Read one partition of the broadcast topic again from this offset on, unless it is read from before it anyway."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class RewindShard:
    """Read the contributions for this partition again from the first one on."""

    partition: int
    version: int


@dataclass(frozen=True, slots=True)
class SaveMerged:
    """Save the slots of all partitions; ``frontier_ms`` is for the name alone."""

    control_offset: int
    frontier_ms: int
    broadcast_offsets: list[int]
    data: bytes


@dataclass(frozen=True, slots=True)
class WriteControlCheckpoint:
    """The folded control topic, for those who start later; then delete what nobody needs, if the node ``trims``."""

    value: bytes
    trims: bool


class Ending(Enum):
    """Why a node leaves."""

    DONE = "done"  # all input has ended and every window is answered, durably
    STOPPED = "stopped"  # an operator or a client requested it
    FAILED = "failed"  # the user's function, or something that this node cannot get past
    SUPERSEDED = "superseded"  # a newer incarnation of the job runs


@dataclass(frozen=True, slots=True)
class Leave:
    """The last effect of a node."""

    ending: Ending
    reason: str = ""


Effect = (
    WriteControl
    | WriteHeartbeat
    | WriteBroadcast
    | WriteContribution
    | WriteOutput
    | LoadCheckpoint
    | ReadTail
    | SaveCheckpoint
    | SaveMerged
    | WriteControlCheckpoint
    | RewindBroadcast
    | ReadBroadcastAgain
    | RewindShard
    | Leave
)
