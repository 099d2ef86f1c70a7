"""Snapshots: the state of a partition's task as one value, and its encoded form for checkpoints."""

from __future__ import annotations

import msgspec

from holon.admit import Counts
from holon.duplicates import Seen
from wcrdt.codec import DecodeError
from wcrdt.slots import TrackDelta

VERSION = 1
"""Format of an encoded snapshot; a later release reads all earlier ones."""


class RecordPart(msgspec.Struct, array_like=True, frozen=True):
    """The record track: shared and private windows, Locals (encoded), counts, whether the input has ended.

    ``seen``: the newest outputs of other jobs in the input; nothing in snapshots of an older release.
    """

    slot: TrackDelta
    private: TrackDelta
    locals: dict[str, bytes]
    counts: Counts
    ended: bool
    seen: Seen = Seen()


class WindowPart(msgspec.Struct, array_like=True, frozen=True):
    """The window track, and how many results it has emitted for the end that it stands at."""

    slot: TrackDelta
    locals: dict[str, bytes]
    emitted_end_ms: int
    emitted: dict[str, int]


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """State of one partition at a record boundary.

    ``output_ends`` is set by the node when it checkpoints: the end offsets of the output partitions at which
    everything before this snapshot was acknowledged, so that a new owner scans only what comes after.
    ``known_ends``: how far they went when it was saved, and all of its results with them; a log that ends before has
    lost some.
    """

    partition: int
    record: RecordPart
    window: WindowPart
    punctuations: int
    output_ends: dict[str, dict[int, int]] = {}
    known_ends: dict[str, dict[int, int]] = {}

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode((VERSION, self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Raises ``DecodeError`` on anything that ``to_bytes`` of a known version did not write."""
        try:
            version, raw = msgspec.msgpack.decode(data, type=tuple[int, msgspec.Raw])
            if version != VERSION:
                raise DecodeError(f"a snapshot of version {version}; this release reads up to version {VERSION}")
            return msgspec.msgpack.decode(raw, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError(f"a damaged snapshot: {error}") from error
