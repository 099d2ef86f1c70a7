"""Events: what has happened to a node. The shell reports them, the state machine decides what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from holon.outputs.identity import Ascent, LastSeen
from holon.tracks.record_track import Input
from wcrdt.replica.replica import SlotDelta

OutputPartition = tuple[str, int]
"""(output name, output partition)."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; the shell sends one at least every few milliseconds."""


@dataclass(frozen=True, slots=True)
class ControlRead:
    """Records of the control topic, in order; ``at_end``: there were no more when the read began.

    ``end_queried``: the log was queried for its end; if not, records that have not arrived may be on the log.
    ``next_offset``: where the next read begins.
    """

    values: Sequence[bytes]
    at_end: bool
    end_queried: bool = True
    next_offset: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatsRead:
    """Records of the heartbeat topic."""

    values: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class BroadcastRead:
    """Records of one partition of the broadcast topic, in order, from ``offset`` on; the next read: ``next_offset``."""

    partition: int
    values: Sequence[bytes]
    offset: int = 0
    next_offset: int = 0


@dataclass(frozen=True, slots=True)
class ContributionsRead:
    """Records of the topic of shards for a partition that this node processes under ``version``.

    The first one of a version says from where on they are read; no contribution that is written later is passed over.
    """

    partition: int
    version: int
    values: Sequence[bytes]


class InputRead(msgspec.Struct, frozen=True):
    """Records of an input partition that this node processes under ``version``; ``more``: the read was cut short."""

    partition: int
    version: int
    run: Input
    more: bool = False


@dataclass(frozen=True, slots=True)
class InputEndRequested:
    """The log's answer for the end of an input partition, of which this node has read everything before ``offset``.

    ``end`` counts what is there and cannot be read yet (open transactions) too.
    """

    partition: int
    version: int
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class CheckpointLoaded:
    """``data`` of the newest intact one of ``tried``, None if there is none; ``problems``: of the others.

    ``below``: the data of the checkpoints that it rests on, if it is a part.
    """

    partition: int
    version: int
    name: str | None
    data: bytes | None
    problems: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    below: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TailRead:
    """Per output partition: the newest identities of this source partition by track, and where the log ends."""

    partition: int
    version: int
    last: dict[OutputPartition, dict[int, LastSeen]]
    ends: dict[OutputPartition, int]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """All outputs and deltas of the partition up to ``ticket`` are on the log; ``ends`` of the output partitions."""

    partition: int
    version: int
    ticket: int
    ends: dict[OutputPartition, int]


@dataclass(frozen=True, slots=True)
class OutputRefused:
    """The log takes no such record: it is too large, wherever the partition is processed."""

    partition: int
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointStored:
    """The checkpoint with this ``ticket`` is durable under ``name``."""

    partition: int
    version: int
    ticket: int
    name: str


@dataclass(frozen=True, slots=True)
class Followed:
    """The outputs in one output partition between two offsets: identities by (source partition, track)."""

    to: OutputPartition
    start: int
    end: int
    found: dict[tuple[int, int], list[Ascent]]


@dataclass(frozen=True, slots=True)
class OutputsFollowed:
    """Records of the output partitions that standbys follow.

    ``at_end``: these, and the broadcast before them, were read to the end just now.
    """

    followed: list[Followed]
    at_end: bool


@dataclass(frozen=True, slots=True)
class MergedStored:
    """The merged checkpoint is durable under ``name``; None if it could not be read back, so that it does not count."""

    name: str | None
    control_offset: int
    broadcast_offsets: list[int]


@dataclass(frozen=True, slots=True)
class MergedLoaded:
    """Full slots of a merged checkpoint, as if they had been read from the broadcast: what comes now goes on there.

    ``offsets`` of all partitions. ``rewound``: after ``RewindBroadcast``, of one partition or of the ``whole``; else at
    the node's start.
    """

    slots: list[SlotDelta]
    offsets: list[int]
    rewound: bool = False
    whole: bool = True


@dataclass(frozen=True, slots=True)
class MergedAwaited:
    """A merged checkpoint with the slots of these partitions, and of no others, is on its way.

    Their broadcast is not read until it is there. A node that waits so at its start does not join yet.
    """

    partitions: list[int]


@dataclass(frozen=True, slots=True)
class FiguresChanged:
    """Figures that only the shell knows, by name: the heartbeats carry them from now on."""

    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BroadcastLost:
    """The end of this partition of the broadcast is gone: it is read again from its beginning."""

    partition: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A request to this node alone to leave (SIGTERM): drain, checkpoint, release."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Several events, in order, after all of which it is worked out what follows.

    Input comes last: where the job's function fails on it, the rest is dropped, and is read again.
    """

    events: Sequence[Event]


Event = (
    Ticked
    | ControlRead
    | HeartbeatsRead
    | BroadcastRead
    | ContributionsRead
    | InputRead
    | InputEndRequested
    | CheckpointLoaded
    | TailRead
    | Acknowledged
    | CheckpointStored
    | OutputRefused
    | OutputsFollowed
    | MergedStored
    | MergedLoaded
    | MergedAwaited
    | FiguresChanged
    | BroadcastLost
    | StopRequested
    | EventBatch
)
