"""Messages of the control topic and of the broadcast topic, and their bytes on the log.

Two rules for this file: bytes from outside fail here and nowhere later, as ``BadMessage``; a message is a value and
knows nothing of what it does. All readers ignore a damaged message alike; one of a *newer version* stops an older node,
which would fold another state than its peers without it (``docs/design/control.md``, versions).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from nodes.machine.envelope import FIRST_VERSION, seal, unseal
from nodes.machine.envelope import FORMAT_VERSION as FORMAT_VERSION
from nodes.machine.envelope import BadMessage as BadMessage
from nodes.machine.envelope import BadReason as BadReason
from wcrdt.replica.replica import Punctuation, SlotDelta
from wcrdt.replica.slots import Position

NUMBERED_VERSION = 3
"""Since this one incarnations of nodes and commands have numbers or ids, so that none counts twice."""
COLUMNS_VERSION = 4
"""Since this one nodes write keyed state as columns into deltas and checkpoints, which a node before it cannot read."""
LATE_BY_STATE_VERSION = 5
"""Since this one checkpoints count the rows that are late for each state, where there are some."""
PARTS_VERSION = 6
"""Since this one a checkpoint may rest on others, which a node before it would not read, and would delete."""
LARGE_VERSION = 7
"""Since this one a broadcast message may have more than ``FORMER_BROADCAST_BYTES``, which a node before it refuses."""
SHARDS_VERSION = 11
"""Since this one contributions to sharded states may wait; in version 7 they left apart, by bits in version 10."""
PROGRAMS_VERSION = LAYOUTS_VERSION = 8
"""Since this one a running transactional job may change its program and its keys' homes, and have more partitions."""
SCHEMAS_VERSION = 9
"""Since this one nodes agree on which schemas a registry has, before they read records of them."""
COPIES_VERSION = 9
"""Since this one keys of a transactional job may be copied to other homes before they move, and groups be parted."""
PORTIONS_VERSION = 12
"""Since this one keys of a transactional job may move in portions, each of which is a layout that nobody requested."""
MAX_CONTROL_BYTES = 1 << 20
FORMER_BROADCAST_BYTES = 64 << 20
MAX_BROADCAST_BYTES = 4 << 30
"""As much as one value of MessagePack holds. On the log a message is cut into records of less than 1 MB."""
MAX_PARTITIONS = 100_000

Natural = Annotated[int, msgspec.Meta(ge=0)]
Incarnation = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Partition = Annotated[int, msgspec.Meta(ge=0, lt=MAX_PARTITIONS)]
Version = Annotated[int, msgspec.Meta(ge=1)]
SchemaId = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Text = Annotated[str, msgspec.Meta(max_length=MAX_CONTROL_BYTES)]


ONLINE_LAYOUT, IN_PORTIONS, LAYOUT_PORTION = "layout online", "layout in portions", "layout portion"
"""Names of ``Command``s: a layout whose keys are copied first, or with operators apart; it has portions; one holds."""


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The common part of all messages: the incarnation of the job that they belong to (0 is the first)."""

    incarnation: Incarnation
    since: ClassVar[int] = FIRST_VERSION

    @property
    def format(self) -> int:
        """The first format that has this message's fields: readers of an older one have to stop."""
        return self.since


UPSTREAM = "upstream"
"""What JobStarted describes since version 2: a node that does not know it would count duplicates."""

CONTINUES = "continues"
"""Where an incarnation goes on behind the end of the one before: from what, for nodes that know how."""

ANSWER_KEY = "answer key"
"""Of a transactional job, since version 3: with it (in hexadecimal) nodes prove answers of external calls."""


class JobStarted(Message, frozen=True, tag="job"):
    """An incarnation begins. The first record of an incarnation wins; a higher one supersedes everything before it."""

    fingerprint: Text
    partitions: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTITIONS)]
    description: dict[str, str] = {}

    @property
    def format(self) -> int:
        if ANSWER_KEY in self.description:
            return NUMBERED_VERSION
        return 2 if {UPSTREAM, CONTINUES} & set(self.description) else FIRST_VERSION


class Hello(Message, frozen=True, tag="hello"):
    """An incarnation of a node begins; of an earlier one under the same name nothing is left.

    ``number`` counts the fleet's nodes from 0, for people; -1 if it has none. ``node_incarnation`` counts those under
    this name from 1, so that a Hello read twice, or late, begins nothing; 0: of an older release, which counted none.
    """

    node: Name
    number: Annotated[int, msgspec.Meta(ge=-1)] = -1
    node_incarnation: Natural = 0

    since: ClassVar[int] = COLUMNS_VERSION


UNCOUNTED_INCARNATION = 2**32 - 1
"""A heartbeat of this incarnation counts for no node."""


class Heartbeat(Message, frozen=True, tag="beat"):
    """Still alive. ``progress``: next input offset of each partition that the node processes; ``stats``: to show."""

    node: Name
    beat: Natural
    progress: dict[Partition, Natural] = {}
    stats: dict[str, float] = {}


class Leaving(Message, frozen=True, tag="leaving"):
    """The node hands its partitions over one by one, and takes none; ``node_incarnation`` 0: whichever it is."""

    node: Name
    node_incarnation: Natural = 0

    since: ClassVar[int] = NUMBERED_VERSION


class Alive(Message, frozen=True, tag="alive"):
    """In a large fleet: the nodes whose heartbeats this node has received since its last report, itself among them."""

    node: Name
    nodes: list[Name]


class Goodbye(Message, frozen=True, tag="bye"):
    """This incarnation of the node is over; all its partitions are free. ``node_incarnation`` 0: whichever it is."""

    node: Name
    node_incarnation: Natural = 0

    since: ClassVar[int] = NUMBERED_VERSION


class Claim(Message, frozen=True, tag="claim"):
    """The node takes the partition; valid if ``version`` follows the current claim_version directly."""

    node: Name
    partition: Partition
    version: Version


class Release(Message, frozen=True, tag="release"):
    """The owner gives the partition up; ``to`` is whom it expects to take it over."""

    node: Name
    partition: Partition
    version: Version
    to: Name | None = None


class CheckpointSaved(Message, frozen=True, tag="saved"):
    """A checkpoint of a partition is durable, and so are all outputs and deltas up to it.

    ``version``: the claim under which it was made (0: none, a standby). ``(offset, step)`` is the record track's
    position, ``(answered_ms, answered_stage)`` the window track's; ``done``: the input has ended and all is answered.
    ``counts``: records accepted, filtered, late and dead so far; since version 2 also duplicates, then late inserts (as
    in ``holon.tracks.admission.AdmissionCounts``), where there are some. Since version 5 also the late rows of each of
    the job's ``late_states``, where there are some.
    """

    node: Name
    partition: Partition
    version: Natural
    name: Name
    offset: Natural
    watermark_ms: int
    answered_ms: int
    answered_stage: Natural = 0
    done: bool = False
    step: Natural = 0
    counts: Annotated[tuple[Natural, ...], msgspec.Meta(min_length=4)] = (0, 0, 0, 0)

    @property
    def format(self) -> int:
        if len(self.counts) > 6:
            return LATE_BY_STATE_VERSION
        return 2 if len(self.counts) > 4 else FIRST_VERSION

    @property
    def taken(self) -> int:
        """The records that the counts add up to; late inserts are inserts of some of these."""
        return sum(self.counts[:5])

    @property
    def late_inserts(self) -> int:
        """Inserts into closed windows that were dropped."""
        return self.counts[5] if len(self.counts) > 5 else 0

    @property
    def record_position(self) -> Position:
        return (self.offset, self.step)

    @property
    def answered(self) -> Position:
        return (self.answered_ms, self.answered_stage)


class PartSaved(CheckpointSaved, frozen=True, tag="part"):
    """Of a part: ``rests_on`` are the names of the checkpoints that it depends on. Since version 6."""

    rests_on: Annotated[tuple[Name, ...], msgspec.Meta(max_length=16)] = ()

    @property
    def format(self) -> int:
        return PARTS_VERSION


class MergedSaved(Message, frozen=True, tag="merged"):
    """A merged checkpoint is durable: the slots of all partitions.

    They hold the broadcast's deltas before ``broadcast_offsets``, by partition; ``control_offset`` is its maker's
    position on the control topic when it began.
    """

    node: Name
    name: Name
    control_offset: Natural
    broadcast_offsets: list[Natural]


class SlotWanted(Message, frozen=True, tag="want"):
    """The node has a gap in the partition's slot behind ``(offset, step)`` and requests a full one."""

    node: Name
    partition: Partition
    offset: Natural
    step: Natural = 0

    @property
    def position(self) -> Position:
        return (self.offset, self.step)


class ShardWanted(SlotWanted, frozen=True, tag="want shard"):
    """The same of what the partition has added to the keys for which partition ``shard`` answers; since version 7."""

    shard: Partition = 0

    since: ClassVar[int] = SHARDS_VERSION


class EndOfInput(Message, frozen=True, tag="end"):
    """The bounded input of the partition ends before ``offset``; the first such record of a partition wins.

    ``reached``: it was so long already when this was declared; else its producer is still writing it.
    """

    partition: Partition
    offset: Natural
    reached: bool = False


class Failed(Message, frozen=True, tag="failed"):
    """The user's function failed at this record: nobody takes the partition up again with the same code."""

    node: Name
    partition: Partition
    offset: Natural
    code_hash: Text
    error: Text


class Crashed(Message, frozen=True, tag="crashed"):
    """The user's function ends its process at this record, which is a dead letter from now on; since version 3.

    ``how``: what the process ended by. The first of a record counts, unless a checkpoint has passed the record before.
    """

    node: Name
    partition: Partition
    offset: Natural
    code_hash: Text
    how: Text

    since: ClassVar[int] = NUMBERED_VERSION


class SchemasFound(Message, frozen=True, tag="schemas"):
    """A registry's answers to a node about records of a partition; the first verdict counts. Since version 9.

    ``known``: ids that it has, for all partitions of the ``source`` (its place among the job's). ``before``: all other
    ids are unknown in records of the partition before this offset; 0: none is.
    """

    node: Name
    partition: Partition
    source: Natural
    known: list[SchemaId] = []
    before: Natural = 0

    since: ClassVar[int] = SCHEMAS_VERSION


class LargeDelta(Message, frozen=True, tag="large"):
    """The node is about to broadcast a message above ``FORMER_BROADCAST_BYTES``: older releases stop at this record."""

    node: Name
    partition: Partition

    since: ClassVar[int] = LARGE_VERSION


class Command(Message, frozen=True, tag="command"):
    """A request of an operator; "stop": every node drains, saves checkpoints and leaves. One ``id`` ("": any) once."""

    name: Name
    argument: Text = ""
    id: Annotated[str, msgspec.Meta(max_length=200)] = ""

    @property
    def format(self) -> int:
        if self.name in (ONLINE_LAYOUT, IN_PORTIONS, LAYOUT_PORTION):
            return COPIES_VERSION if self.name == ONLINE_LAYOUT else PORTIONS_VERSION
        return PROGRAMS_VERSION if self.name.startswith(("program", "layout")) else NUMBERED_VERSION


class SlotSent(Message, frozen=True, tag="slot"):
    """Broadcast: a delta or a full slot of a partition."""

    delta: SlotDelta


class ShardedSent(SlotSent, frozen=True, tag="sharded"):
    """Broadcast: a delta; contributions leave to these shards (``bits_of``; in version 7 a list), or wait (None)."""

    shards: list[Partition] | Annotated[bytes, msgspec.Meta(max_length=MAX_PARTITIONS // 8)] | None = b""
    sent_through: Position | None = None  # they begin there; None: where the delta does, before version 11
    since: ClassVar[int] = SHARDS_VERSION


class PunctuationSent(Message, frozen=True, tag="punctuation"):
    """Broadcast: an idle partition's event time moves."""

    punctuation: Punctuation


class PieceSent(Message, frozen=True, tag="piece"):
    """Broadcast: one of ``count`` pieces of a message too large for a record; ``whole`` is the message's digest."""

    whole: Annotated[bytes, msgspec.Meta(min_length=1, max_length=64)]
    index: Natural
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_BROADCAST_BYTES)]
    data: bytes


ControlMessage = (
    JobStarted
    | Hello
    | Heartbeat
    | Alive
    | Leaving
    | Goodbye
    | Claim
    | Release
    | CheckpointSaved
    | PartSaved
    | MergedSaved
    | SlotWanted
    | ShardWanted
    | EndOfInput
    | Failed
    | Crashed
    | SchemasFound
    | LargeDelta
    | Command
)
BroadcastMessage = SlotSent | ShardedSent | PunctuationSent | PieceSent

_CONTROL: msgspec.msgpack.Decoder[ControlMessage] = msgspec.msgpack.Decoder(ControlMessage)
_BROADCAST: msgspec.msgpack.Decoder[BroadcastMessage] = msgspec.msgpack.Decoder(BroadcastMessage)


def encode(message: ControlMessage | BroadcastMessage) -> bytes:
    """The record's value on the log. Raises ``BadMessage`` (too large) where no reader would take it."""
    limit = MAX_BROADCAST_BYTES if isinstance(message, BroadcastMessage) else MAX_CONTROL_BYTES
    return seal(message, limit, message.format)


def decode_control(data: bytes) -> ControlMessage:
    """Raises ``BadMessage``, and nothing else, on any bytes that ``encode`` cannot give."""
    return unseal(_CONTROL, data, MAX_CONTROL_BYTES)


def decode_broadcast(data: bytes) -> BroadcastMessage:
    """Raises ``BadMessage``, and nothing else; the lattice values inside are checked where they are applied."""
    return unseal(_BROADCAST, data, MAX_BROADCAST_BYTES)
