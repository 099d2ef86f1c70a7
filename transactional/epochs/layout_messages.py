"""The records of the epochs topic by which layouts and programs follow each other, and keys change their homes."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from transactional.layout import Layout
from transactional.program_versions import ProgramVersion

Addressed: TypeAlias = list[tuple[int, bytes]]
"""(state partition, the record for it or its digest), by partition."""

Item: TypeAlias = tuple[int, int, str, str]
"""Something that moves: the partition that it moves to, -1, operator and key of an entity. Or that partition,
sequencer, "" and id of a remembered reply. They are copied in this order."""

_COPIES = 1 << 62


def copies_epoch(layout: int) -> int:
    """Stands for the epoch in copies to this layout's homes: it never comes, so calls before it are kept until then."""
    return _COPIES + layout


class NewLayout(msgspec.Struct, array_like=True, frozen=True, tag="layout"):
    """The next layout of the job's keys: the first of its number wins. Void unless it is the planned one, if one is.

    It holds from the first epoch of which no cut stands before it on the topic.
    """

    layout: Layout


class PlannedLayout(msgspec.Struct, array_like=True, frozen=True, tag="plan"):
    """The next layout is to be this one, and keys are copied to their homes in it before it holds.

    The first of its number wins. Copies are of epochs of which no cut stands before it, and later ones.
    """

    layout: Layout


class NewProgram(msgspec.Struct, array_like=True, frozen=True, tag="program"):
    """The next version of the job's program: the first of its number wins. It holds as a ``NewLayout`` does."""

    program: ProgramVersion


class Copied(msgspec.Struct, array_like=True, frozen=True, tag="copied"):
    """Batch ``index`` of a state partition's copies ahead of a move: ``sends`` are on the calls of other partitions.

    A *sweep* goes through all items in order, the first through all that move, later ones through those that changed
    again. The batch covers the items behind the last batch up to ``end``, None: all others, and the sweep is over.
    Writes of epochs up to ``as_of`` are in it, or in a batch before it. ``left``: items of the sweep still to
    come, ``size_bytes``: in the batch; both are shown. A batch of another layout than the planned one, or that follows
    none, is void. It counts once each partition that gets something of it has written ``CopyArrived``. Until then
    another one of the same index takes its place.
    """

    partition: int
    layout: int
    index: int
    sweep: int
    as_of: int
    end: Item | None
    sends: Addressed
    left: int
    size_bytes: int


class CopyArrived(msgspec.Struct, array_like=True, frozen=True, tag="arrived"):
    """A state partition has read what ``source`` has sent to it in its last batch; ``name``: the digest of that."""

    partition: int
    layout: int
    source: int
    name: bytes


class Handover(msgspec.Struct, array_like=True, frozen=True, tag="handover"):
    """A state partition has sent all that moves away from it before this epoch begins, by that layout.

    One of another layout than the epoch's is void. ``keys``, ``size_bytes``, ``replies``: how much, to be shown.
    """

    partition: int
    epoch: int
    layout: int
    sends: Addressed
    keys: int
    size_bytes: int
    replies: int
    inline: bool = False
