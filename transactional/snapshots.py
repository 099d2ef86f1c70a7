"""The state of one state partition at the end of an epoch, as one value: what a checkpoint of it holds.

It holds the ledger's state too, restricted to what comes after that epoch, so that whoever begins with it reads the
epochs topic from ``epochs_offset``, the calls of the partition from ``calls_offset`` and its commits from
``commits_offset``, and nothing before.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from transactional.errors import Aborted
from transactional.messages import Cut, Mark, Request, Shipment
from transactional.values import BadValue, decode, encode

FORMAT_VERSION = 4

Natural = Annotated[int, msgspec.Meta(ge=0)]


class PostponedState(msgspec.Struct, array_like=True, frozen=True):
    """A transaction that was postponed; lists are sorted."""

    tid: int
    time_ms: int
    request: Request
    keys: list[tuple[str, str]]
    prefixes: list[tuple[str, str]]


class LedgerState(msgspec.Struct, array_like=True, frozen=True):
    """The fold over the epochs topic before ``epochs_offset``, without the epochs up to ``done``."""

    epochs_offset: Natural
    done: Natural
    base: Natural
    carried: list[PostponedState]
    next_cut: list[int]
    cut_to: list[int]
    cuts: list[Cut]
    marks: list[Mark]
    shipments: list[Shipment]


class ReplyState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A reply that may be asked for again; ``result`` None: ``failure`` says how it failed.

    ``offset``: where its request was last seen.
    """

    sequencer: int
    id: str
    call: Request | bytes
    offset: int
    tid: int
    result: bytes | None
    failure: Aborted | None


class PartitionState(msgspec.Struct, array_like=True, frozen=True):
    """A state partition at the end of epoch ``ledger.done``."""

    version: int
    partition: int
    calls_offset: Natural
    commits_offset: Natural
    committed: int
    ledger: LedgerState
    items: list[tuple[str, str, bytes]]
    replies: list[ReplyState]
    reply_order: list[tuple[int, list[tuple[int, str]]]]  # sequencer, its offsets and ids


def snapshot_bytes(state: PartitionState) -> bytes:
    """Equal states give equal bytes."""
    return encode(state)


def snapshot_state(data: bytes) -> PartitionState:
    """Raises ``BadValue``, also for one of a newer format."""
    envelope = decode(data)
    version = envelope[0] if isinstance(envelope, list) and envelope else None
    if version != FORMAT_VERSION:
        raise BadValue(f"a snapshot of format {version!r}: this version reads {FORMAT_VERSION}")
    return decode(data, PartitionState)
