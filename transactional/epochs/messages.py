"""The records on the topics of a transactional job: one record is one message. Only decoding may fail."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from transactional.context import CallChain, Path
from transactional.epochs.layout_messages import (
    Addressed,
    Copied,
    CopyArrived,
    Handover,
    NewLayout,
    NewProgram,
    PlannedLayout,
)
from transactional.errors import Aborted
from transactional.external import ContinuedTransaction
from transactional.state.values import BadValue, decode, digest, encode


class BadRecord(ValueError):
    """A record of an internal topic is none of ours; it is counted and passed over."""


class Kind(IntEnum):
    """The outcome of a request."""

    RUN = 0
    REPEAT = 1  # its id was seen before, with the same call
    REFUSE = 2  # cannot be run; ``arguments`` is the encoded reply


class Request(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A request of a client, as its sequencer forwards it: number ``index`` in the request record at ``offset``.

    ``continued``: it goes on after an external call.
    """

    kind: Kind
    id: str
    operator: str
    key: str
    function: str
    arguments: bytes
    sequencer: int
    offset: int
    index: int
    continued: ContinuedTransaction | None = None


class Forward(msgspec.Struct, array_like=True, frozen=True, tag="forward"):
    """Requests of one cut for one state partition, and beside them their numbers in the cut."""

    sequencer: int
    epoch: int
    numbers: list[int]
    requests: list[Request]


class WireCall(msgspec.Struct, array_like=True, frozen=True, tag=0, gc=False):
    """A call; partition ``caller`` waits for its result, None: no partition."""

    tid: int
    time_ms: int
    call_chain: CallChain
    path: Path
    operator: str
    key: str
    function: str
    arguments: bytes
    caller: int | None
    continued: ContinuedTransaction | None = None


class WireResult(msgspec.Struct, array_like=True, frozen=True, tag=1, gc=False):
    """A result for a waiting call."""

    tid: int
    call_chain: CallChain
    path: Path
    result: bytes | None
    failure: Aborted | None


class Calls(msgspec.Struct, array_like=True, frozen=True, tag="calls"):
    """The messages of one state partition to another in one round."""

    source: int
    epoch: int
    round: int
    items: list[WireCall | WireResult]


class Cut(msgspec.Struct, array_like=True, frozen=True, tag="cut"):
    """A sequencer's part of an epoch: ``count`` requests from one offset to another. The first that fits wins.

    One that was made under another layout or program than the epoch's is void, as if it were not there.
    """

    sequencer: int
    epoch: int
    from_offset: int
    to_offset: int
    count: int
    time_ms: int
    sends: Addressed
    inline: bool = False
    layout: int = 0
    program: int = 0


class ReplyState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A reply that may be requested again; ``result`` None: ``failure`` holds the reason.

    ``offset``: where its request was last seen. ``call``: the request, or its name (``requests/replies.py``).
    """

    sequencer: int
    id: str
    call: Request | bytes
    offset: int
    tid: int
    result: bytes | None
    failure: Aborted | None


class MovedState(msgspec.Struct, array_like=True, frozen=True, tag="moved"):
    """Part ``index`` of what moves from state partition ``source`` to another one before this epoch begins.

    ``rows``: operator, key, value; None: deleted since it was copied. ``order``: sequencer, offset and id of remembered
    requests, oldest first. Of copies ahead of the move the epoch is ``copies_epoch``, and there is no order.
    """

    source: int
    epoch: int
    index: int
    rows: list[tuple[str, str, bytes | None]]
    replies: list[ReplyState] = []
    order: list[tuple[int, int, str]] = []


class Contribution(msgspec.Struct, array_like=True, frozen=True):
    """The contribution of a partition to the epoch's transactions, by TID; all lists ascend.

    ``conflicts``: with a lower TID. ``races``: run again in sequence. ``over``: floods calls.
    ``failures``: ended by an exception, with the call chain in which it was.
    ``timed_out``: a function has run too long, or ends its process.
    ``reads_from``: what it has read here is what that lower TID writes, so it is valid only if that commits at once.
    """

    conflicts: list[int]
    races: list[int]
    over: list[int]
    failures: list[tuple[int, CallChain, Aborted]]
    timed_out: list[tuple[int, Aborted]] = []
    reads_from: list[tuple[int, int]] = []


class RoundBarrier(msgspec.Struct, array_like=True, frozen=True, tag="mark"):
    """A state partition has run a round. ``contribution`` is there where it sent nothing.

    ``inline``, here and in cuts: ``sends`` holds the records themselves, else they are on the calls.
    ``without``: by how many ``Crashes`` of the partition it goes.
    """

    partition: int
    epoch: int
    round: int
    sends: Addressed
    contribution: Contribution | None
    inline: bool = False
    without: int = 0


class ReadSetSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="shipment"):
    """The values of a partition for the transactions that are run again: roots, values, whole prefixes."""

    partition: int
    epoch: int
    roots: list[tuple[int, int, Request]]  # TID, time, request
    values: list[tuple[str, str, bytes | None]]
    prefixes: list[tuple[str, str]]


class TimeoutProposal(msgspec.Struct, array_like=True, frozen=True, tag="hangs"):
    """A function of this transaction ran too long when the epoch's conflicts were run again."""

    tid: int
    epoch: int
    failure: Aborted


class TimeoutAcknowledgement(msgspec.Struct, array_like=True, frozen=True, tag="agrees"):
    """A state partition has not ended the epoch, and will without the first ``count`` transactions that time out."""

    partition: int
    epoch: int
    count: int


class Attempt(msgspec.Struct, array_like=True, frozen=True, tag="attempt"):
    """An incarnation of a node has taken the partition over and tries an epoch that is not over (-1: its rerun)."""

    partition: int
    epoch: int
    node: str


class Crashes(msgspec.Struct, array_like=True, frozen=True, tag="crashes"):
    """A function of this transaction ends its process where the partition runs this round of the epoch."""

    tid: int
    epoch: int
    partition: int
    round: int
    failure: Aborted


class Reply(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A reply to request ``id``, number ``index`` in the record at ``offset`` of its request partition."""

    id: str
    sequencer: int
    offset: int
    index: int
    tid: int
    result: bytes | None
    failure: Aborted | None

    @property
    def outcome(self) -> Any:
        """The decoded result, or ``Aborted``."""
        return self.failure if self.result is None else decode(self.result)


class Replies(msgspec.Struct, array_like=True, frozen=True, tag="replies"):
    """A record of the replies topic: replies number ``first`` and those after it of one partition in one epoch.

    ``(epoch, number)`` ascends in each partition; a record that does not is a duplicate.
    """

    epoch: int
    first: int
    replies: list[Reply]


class Commit(msgspec.Struct, array_like=True, frozen=True, tag="commit"):
    """The writes of an epoch in a state partition: the next owner keeps them, and runs nothing of it again.

    ``committed``: transactions so far. ``calls``: the requests of the first replies; later replies answer duplicates.
    ``without``: transactions that timed out when they were run again.
    """

    partition: int
    epoch: int
    committed: int
    writes: list[tuple[str, str, bytes | None]]
    replies: list[Reply]
    calls: list[Request | bytes]
    without: list[int] = []


class RecordPiece(msgspec.Struct, array_like=True, frozen=True, tag="piece", gc=False):
    """Number ``index`` of ``count`` pieces of a record of this epoch; ``whole``: its digest.

    ``size``: of the record, if the pieces together are its zlib format; None: they are the record. ``name``: what only
    pieces that go together have in common, since not all nodes may compress alike.
    """

    epoch: int
    whole: bytes
    name: bytes
    index: int
    count: int
    size: int | None
    data: bytes


class MessageBatch(msgspec.Struct, array_like=True, frozen=True, tag="together", gc=False):
    """A node's messages of one turn on the epochs topic, as one record: each is a record of that topic."""

    values: list[bytes]


EpochMessage = (
    Cut
    | RoundBarrier
    | ReadSetSnapshot
    | RecordPiece
    | TimeoutProposal
    | TimeoutAcknowledgement
    | Attempt
    | Crashes
    | PlannedLayout
    | Copied
    | CopyArrived
    | NewLayout
    | NewProgram
    | Handover
)
CallMessage = Forward | Calls | MovedState | RecordPiece
CommitMessage = Commit | RecordPiece
_epochs: msgspec.msgpack.Decoder[EpochMessage | MessageBatch] = msgspec.msgpack.Decoder(EpochMessage | MessageBatch)
_calls: msgspec.msgpack.Decoder[CallMessage] = msgspec.msgpack.Decoder(CallMessage)
_commits: msgspec.msgpack.Decoder[CommitMessage] = msgspec.msgpack.Decoder(CommitMessage)
_replies: msgspec.msgpack.Decoder[Replies] = msgspec.msgpack.Decoder(Replies)


def slot_of(message: RoundBarrier | ReadSetSnapshot) -> tuple[int, int, int]:
    """Epoch, round (of read-set snapshots: 0) and partition: of a second record of a slot the first wins."""
    return message.epoch, message.round if isinstance(message, RoundBarrier) else 0, message.partition


def to_bytes(message: EpochMessage | MessageBatch | CallMessage | Replies | Commit | RecordPiece) -> bytes:
    """The record."""
    return encode(message)


def addressed(records: Addressed, inline_bytes: int) -> tuple[Addressed, bool]:
    """The description by a cut or barrier of the records that it sends, and whether it holds the records themselves."""
    if sum(len(data) for _, data in records) <= inline_bytes:
        return records, bool(records)
    return [(to, digest(data)) for to, data in records], False


def epoch_message(data: bytes) -> EpochMessage:
    """Of the epochs topic, where it holds one; raises ``BadRecord``."""
    messages = epoch_messages(data)
    if len(messages) != 1:
        raise BadRecord(f"{len(data)} bytes: {len(messages)} records of the epochs topic and not one")
    return messages[0]


def epoch_messages(data: bytes) -> list[EpochMessage]:
    """Of the epochs topic; raises ``BadRecord``."""
    message = _decoded(_epochs, data)
    if not isinstance(message, MessageBatch):
        return [message]
    messages = [_decoded(_epochs, value) for value in message.values]
    if any(isinstance(each, MessageBatch) for each in messages):
        raise BadRecord(f"{len(data)} bytes: a record of several holds a record of several")
    return messages


def call_message(data: bytes) -> CallMessage:
    """Of the calls topic; raises ``BadRecord``."""
    return _decoded(_calls, data)


def commit_message(data: bytes) -> CommitMessage:
    """Of the commits topic; raises ``BadRecord``."""
    return _decoded(_commits, data)


def reply_message(data: bytes) -> Replies:
    """Of the replies topic; raises ``BadRecord``."""
    return _decoded(_replies, data)


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadValue) as error:
        raise BadRecord(f"{len(data)} bytes are no record of a transactional job: {error}") from None
