"""Snapshots: the state of a partition's task as one value, and its encoded form for checkpoints."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from holon.outputs.outbox import HeldPart
from holon.tracks.admission import AdmissionCounts
from holon.tracks.upstream_duplicates import SeenOutputs
from wcrdt.codec import DecodeError
from wcrdt.replica.slots import Position, TrackDelta
from wcrdt.windows.assigners import BEFORE_TIME_MS

VERSION = 3
"""Format of an encoded snapshot; a later release reads all earlier ones. 1: all stages in one track. 2: keyed state row
by row."""


def record_digest(timestamp_ms: int, payload: bytes) -> bytes:
    """Names a record of the input, so that another one at its offset is noticed."""
    return blake2b(timestamp_ms.to_bytes(8, "big", signed=True) + payload, digest_size=8).digest()


class RecordPart(msgspec.Struct, array_like=True, frozen=True):
    """The record track: shared and private windows, Locals (encoded), counts, whether the input has ended.

    ``seen``: the newest outputs of other jobs in the input. ``closing``: the watermark just before the input ended, and
    the end of the last window that was open then. An older release has left out what has a default.
    """

    slot: TrackDelta
    private: TrackDelta
    locals: dict[str, bytes]
    counts: AdmissionCounts
    ended: bool
    seen: SeenOutputs = SeenOutputs()
    closing: tuple[int, int] | None = None
    last: bytes = b""
    """``record_digest`` of the record before the position; empty where there is none, or none is known."""


class WindowPart(msgspec.Struct, array_like=True, frozen=True):
    """The window track: stage 0, and how many results it has emitted for the end of its position.

    ``later``: the tracks of the stages behind it; ``held``: results that wait until these have come as far.
    """

    slot: TrackDelta
    locals: dict[str, bytes]
    emitted_end_ms: int
    emitted: dict[str, int]
    later: list[TrackDelta] = []
    held: list[HeldPart] = []
    late_inserts: int = 0
    """Of handlers, into windows that were answered already; an older release has left it out."""

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

        The contents of that one track go on as stage 0's; a later stage has contributed nothing of its own yet.
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

    ``output_ends`` is set by the node when it checkpoints. It holds the end offsets of the output partitions at which
    everything before this snapshot was acknowledged. So a new owner scans only records after them. ``known_ends``: how
    far they went when it was saved, and all of its results with them; a log that ends before has lost some.
    """

    partition: int
    record: RecordPart
    window: WindowPart
    punctuations: int
    output_ends: dict[str, dict[int, int]] = {}
    known_ends: dict[str, dict[int, int]] = {}

    @property
    def counts(self) -> AdmissionCounts:
        """The fates of the records, and the late inserts of both tracks."""
        return self.record.counts.with_late_inserts(self.window.late_inserts)

    def closing(self) -> int | None:
        """The end (ms) of the last window that the end of the input has closed; None if that is not known."""
        if self.record.closing is None:
            return None
        tracks = self.record.slot, self.window.slot, *self.window.later
        ends = [change.end_ms for track in tracks for change in track.changes]
        return max([self.record.closing[1], self.window.emitted_end_ms, *ends])

    def reopened(self, closed_ms: int, lateness_ms: int, last_stage: int) -> Snapshot:
        """As if the input had not ended; but windows up to ``closed_ms`` are answered, and take nothing."""
        record = self.record
        assert record.closing is not None, "of an input that has ended"
        watermark_ms, end_ms = record.closing[0], BEFORE_TIME_MS
        if closed_ms > BEFORE_TIME_MS:
            watermark_ms, end_ms = max(watermark_ms, closed_ms + lateness_ms), closed_ms
        slot = msgspec.structs.replace(record.slot, watermark_ms=watermark_ms, changes=[])
        private = msgspec.structs.replace(record.private, changes=[])
        record = msgspec.structs.replace(record, slot=slot, private=private, ended=False, closing=None)
        places = [(end_ms, stage) for stage in range(last_stage + 1)]
        first, *later = [TrackDelta(place, place, end_ms, [], full=True) for place in places]
        window = msgspec.structs.replace(self.window, slot=first, later=later, held=[])
        return msgspec.structs.replace(self, record=record, window=window, punctuations=0)

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
