"""Snapshots: the state of a partition's task as one value, and its encoded form for checkpoints."""

from __future__ import annotations

import msgspec

from holon.admit import Counts
from holon.duplicates import Seen
from wcrdt.codec import DecodeError
from wcrdt.slots import Position, TrackDelta
from wcrdt.windows import BEFORE_TIME_MS

VERSION = 2
"""Format of an encoded snapshot; a later release reads all earlier ones. 1: all stages in one track."""


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


class HeldPart(msgspec.Struct, array_like=True, frozen=True):
    """Results of a window end that some stages have answered: how many, and each run with its place."""

    end_ms: int
    counts: dict[str, int]
    runs: list[tuple[str, int, list[bytes], list[bytes], list[bytes | None]]]


class WindowPart(msgspec.Struct, array_like=True, frozen=True):
    """The window track: stage 0, and how many results it has emitted for the end that it stands at.

    ``later``: the tracks of the stages behind it; ``held``: results that wait until these have come as far.
    """

    slot: TrackDelta
    locals: dict[str, bytes]
    emitted_end_ms: int
    emitted: dict[str, int]
    later: list[TrackDelta] = []
    held: list[HeldPart] = []

    @property
    def answered_ms(self) -> list[int]:
        """Through which window end each stage has answered."""
        return [track.to[0] for track in (self.slot, *self.later)]

    @property
    def position(self) -> Position:
        """(window end, stage) up to which every stage has answered all that was complete."""
        return (self.slot if not self.later else self.later[-1]).to

    def split(self, last_stage: int) -> WindowPart:
        """With a track for each stage, also where it was encoded in format 1.

        What that one track held goes on as stage 0's; a later stage has contributed nothing of its own yet.
        """
        if len(self.later) == last_stage:
            return self
        end_ms, stage = self.slot.to
        first = msgspec.structs.replace(self.slot, since=(end_ms, 0), to=(end_ms, 0))
        before_ms = max(end_ms - 1, BEFORE_TIME_MS)
        later = []
        for number in range(1, last_stage + 1):
            at = (end_ms if number <= stage else before_ms, number)
            later.append(TrackDelta(at, at, at[0], [], full=True))
        held = [HeldPart(end_ms, self.emitted, [])] if stage < last_stage else []
        return WindowPart(first, self.locals, BEFORE_TIME_MS, {}, later, held)


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
            if not 1 <= version <= VERSION:
                raise DecodeError(f"a snapshot of version {version}; this release reads up to version {VERSION}")
            return msgspec.msgpack.decode(raw, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError(f"a damaged snapshot: {error}") from error
