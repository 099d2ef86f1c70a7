"""Parts: what has changed since other checkpoints, and the snapshot that these and a part are together.

Two rules for this file. A part names all that it rests on, the whole snapshot first. Where one of these does not end
at the position from which the part goes on, there is no snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holon.tracks.snapshot import Snapshot
from wcrdt.codec import DecodeError
from wcrdt.replica.slots import TrackDelta

VERSION = 4
"""In the place of a snapshot's version, so that releases that know no parts refuse one by that."""


class PartHead(msgspec.Struct, array_like=True, frozen=True):
    """``rests_on``: names of checkpoints, the whole one first, then parts, each of which rests on those before it.

    ``dropped_through_ms``: windows of these that are gone, for each track: record, private, then the stages.
    """

    rests_on: list[str]
    dropped_through_ms: list[int]


class Part(msgspec.Struct, array_like=True, frozen=True):
    """A snapshot in which each track has the changes alone."""

    head: PartHead
    snapshot: Snapshot

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode((VERSION, self))


class _Headed(msgspec.Struct, array_like=True, frozen=True):
    head: PartHead
    snapshot: msgspec.Raw


def rests_on(data: bytes) -> list[str]:
    """The names that a checkpoint depends on; none of a whole one, or of what is none (``snapshot_of`` refuses it)."""
    try:
        version, raw = msgspec.msgpack.decode(data, type=tuple[int, msgspec.Raw])
        return msgspec.msgpack.decode(raw, type=_Headed).head.rests_on if version == VERSION else []
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


def snapshot_of(data: bytes, below: Sequence[bytes] = ()) -> Snapshot:
    """The snapshot of a checkpoint; ``below``: of all that it rests on. Raises ``DecodeError``."""
    if not below:
        return Snapshot.from_bytes(data)
    found = Snapshot.from_bytes(below[0])
    for part in (*below[1:], data):
        found = _joined(_part(part), found)
    return found


def _part(data: bytes) -> Part:
    try:
        version, raw = msgspec.msgpack.decode(data, type=tuple[int, msgspec.Raw])
        if version != VERSION:
            raise DecodeError(f"a part of version {version}; this release reads version {VERSION}")
        return msgspec.msgpack.decode(raw, type=Part)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"a damaged part: {error}") from error


def _joined(part: Part, below: Snapshot) -> Snapshot:
    new = part.snapshot
    tracks = [new.record.slot, new.record.private, new.window.slot, *new.window.later]
    lower = [below.record.slot, below.record.private, below.window.slot, *below.window.later]
    dropped = part.head.dropped_through_ms
    if not len(tracks) == len(lower) == len(dropped):
        raise DecodeError(f"a part of {len(tracks)} tracks and {len(dropped)} ends rests on one of {len(lower)}")
    slot, private, first, *later = map(resting_on, tracks, lower, dropped)
    record = msgspec.structs.replace(new.record, slot=slot, private=private)
    window = msgspec.structs.replace(new.window, slot=first, later=later)
    return msgspec.structs.replace(new, record=record, window=window)


def resting_on(new: TrackDelta, below: TrackDelta, dropped_through_ms: int) -> TrackDelta:
    """The whole track: a window may be in it several times, and whoever restores it joins these."""
    if new.since != below.to or new.full:
        raise DecodeError(f"a part goes on from {new.since}, and rests on a checkpoint at {below.to}")
    kept = [change for change in below.changes if change.end_ms > dropped_through_ms]
    return TrackDelta(new.to, new.to, new.watermark_ms, kept + new.changes, full=True)
