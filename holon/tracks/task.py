"""The task of one partition: both tracks, their outputs and deltas, and the snapshot that they come back from.

Pure: fed with records and the replica's progress, it gives outputs, deltas and snapshots. Sending and saving these is
the node's part (Holon, section 4.3: "executes a piece of work for a partition from some index").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holon.errors import UnserializableState
from holon.input_layout import InputLayout
from holon.job import Job
from holon.outputs.outbox import Outbox
from holon.outputs.runs import OutputRun
from holon.outputs.shards import KeyShards
from holon.program.context import Context
from holon.program.function import Functions
from holon.program.gathered_handles import windowed_handle
from holon.program.handles import LocalHandle, WindowedHandle
from holon.program.program import WindowHandler, instantiate, own_states, paths
from holon.program.scope import Scope
from holon.program.shared_windows import SharedWindows
from holon.program.states import StateDeclaration, Windowed
from holon.tracks.admission import AdmissionCounts
from holon.tracks.contributions import ShardContributions
from holon.tracks.parts import Part, PartHead
from holon.tracks.record_track import Input, RecordTrack
from holon.tracks.snapshot import RecordPart, Snapshot, WindowPart, record_digest
from holon.tracks.window_track import WindowTrack
from wcrdt.replica.replica import Replica, SlotDelta
from wcrdt.replica.shards import ShardedDelta
from wcrdt.replica.slots import OwnTrack, Position, TrackDelta
from wcrdt.windows.assigners import END_OF_TIME_MS


class PartitionTask:
    """Runs a job on one partition.

    Args: ``partitions`` of the input; ``output_partitions`` by output name (for outputs that route by key).
    ``layout``: where the partitions are; needed for a job of several sources.
    ``start_offset``: where a task without a snapshot begins. ``upstream`` as in ``Duplicates``; ``live_guard_ms`` as in
    ``Admission``. ``shard``: what all add to the keys of this partition. Of its states, changes leave as contributions.
    """

    def __init__(
        self,
        job: Job,
        incarnation: int,
        partition: int,
        partitions: int,
        replica: Replica,
        *,
        output_partitions: Mapping[str, int] | None = None,
        start_offset: int = 0,
        upstream: Mapping[str, int] | None = None,
        live_guard_ms: int | None = None,
        layout: InputLayout | None = None,
        shard: Replica | None = None,
    ) -> None:
        self.job = job
        layout = InputLayout(job.sources, [partitions]) if layout is None else layout
        self.input = layout[partition]
        self.partition = partition
        self.replica = replica
        program = job.program
        windowed = program.windowed().items()
        shards = {name: (decl.sharding or KeyShards)(partitions) for name, decl in windowed if decl.sharded}
        shared = SharedWindows(replica, partition, shards, shard)
        self.scope = Scope(program, partition, shared, job.window_retention_ms)
        apart = {} if shard is None else {name: shards[name] for name in shard.shapes}
        panes = {name: shape.panes for name, shape in program.shapes().items()}
        self.contributions = ShardContributions(self.scope.record, apart, panes)
        self.scope.record.position = self.scope.record.broadcast_position = (start_offset, 0)
        self.contributions.begin()
        self.outbox = Outbox(job, incarnation, partition, output_partitions or {}, self.input.place)
        handles: dict[Any, Any] = {}
        self.ctx = Context(self.scope, self.outbox, handles, partitions, self.input.place.topic)
        functions, window_functions = self._bind(handles)
        self.records = RecordTrack(
            job, self.input, self.scope, self.outbox, self.ctx, functions, upstream, live_guard_ms
        )
        self._last: tuple[int, bytes] | None = None
        self.began_behind = -1, b""
        """Offset and digest of the record before the snapshot that was restored; the digest is empty: not known."""
        self.windows = WindowTrack(job.name, program, self.scope, replica, self.outbox, self.ctx, window_functions)
        self.punctuations = 0

    # --- progress -------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return self.records.next_offset

    @property
    def position(self) -> Position:
        """Which prefix of the input the record track describes; the same for everyone who processes it."""
        return self.scope.record.position

    @property
    def watermark_ms(self) -> int:
        return self.scope.record.watermark_ms

    @property
    def counts(self) -> AdmissionCounts:
        return self.records.counts.with_late_inserts(self.scope.late.of_handlers)

    @property
    def has_changes(self) -> bool:
        """True if a track moved since the last delta."""
        return self.scope.record.has_changes or any(track.has_changes for track in self.scope.answers)

    def has_changes_beside(self, waiting_bytes: int) -> bool:
        """The same; where no contributions may wait, True also if some have waited."""
        return self.has_changes or (not waiting_bytes and self.contributions.are_waiting)

    @property
    def waiting(self) -> bool:
        """True while an async ``process`` waits for a window: no input is taken meanwhile."""
        return self.records.read is not None

    @property
    def done(self) -> bool:
        """True once the input has ended and every window is answered."""
        return self.records.ended and self.windows.done

    def feed(self, run: Input) -> None:
        """Process a run of input records."""
        if len(run):
            self._last = int(run.timestamps_ms[-1]), bytes(run.payloads[-1])
        self.records.feed(run)

    def punctuate(self, watermark_ms: int) -> None:
        """Take an accepted punctuation at the current position."""
        self.punctuations += 1
        self.records.punctuate(watermark_ms)

    def end(self) -> None:
        """End of input."""
        self.records.end()

    def advance(self) -> bool:
        """Use what the replica has learned: answer completed windows and go on after safe reads."""
        moved = self.windows.advance()
        while self.records.resume():
            moved = True
        if moved and self.done:  # nobody reads again what no other partition sees
            self.scope.own.drop_through(END_OF_TIME_MS)
        return moved

    # --- what leaves ----------------------------------------------------------------------------------------------

    def take_outputs(self) -> dict[tuple[str, int], OutputRun]:
        """Outputs since the last call, by (output, output partition)."""
        return self.outbox.take()

    def take_delta(self, *, waiting_bytes: int = 0) -> SlotDelta | None:
        """The changes of all tracks since the last call, or None.

        A track without changes is named all the same: its position shows a reader that it has missed something.
        So many bytes of contributions may wait for the end of a window.
        """
        record, stages = self.scope.record, self.scope.answers
        if not self.has_changes_beside(waiting_bytes):
            return None
        if not record.apart:
            window, *later = [track.take_delta() for track in stages]
            return SlotDelta(self.partition, self.punctuations, record.take_delta(), window, later=later)
        sent_through = self.contributions.sent_through
        waits = self._may_wait(waiting_bytes)
        contributions = {} if waits else self.contributions.take()
        window, *later = [track.take_delta() for track in stages]
        made = record.take_delta(waits=waits)
        return ShardedDelta(
            self.partition,
            self.punctuations,
            made,
            window,
            later=later,
            contributions=contributions,
            sent_through=sent_through,
            waits=waits,
        )

    def _may_wait(self, most_bytes: int) -> bool:
        if not most_bytes or self.records.ended:
            return False
        return self.contributions.may_wait(self.watermark_ms - self.job.allowed_lateness_ms, most_bytes)

    def full_delta(self) -> SlotDelta:
        """The whole slot of the partition, for others to fill gaps with."""
        window, *later = [track.full_delta() for track in self.scope.answers]
        record = self.scope.record
        return SlotDelta(self.partition, self.punctuations, record.full_delta(record.apart), window, later=later)

    def full_contribution(self, shard: int) -> TrackDelta:
        """All that the partition has added to the keys of a shard, for the one that answers for them."""
        return self.contributions.full(shard)

    def drop_through(self, end_ms: int) -> None:
        """Forget windows that every partition has answered durably."""
        self.scope.record.drop_through(end_ms)
        for track in self.scope.answers:
            track.drop_through(end_ms)
        self.scope.own.drop_through(end_ms)
        self.scope.shared.drop_through(end_ms)

    # --- snapshots ------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state of both tracks at this record boundary; not while ``waiting``.

        Raises ``UserFunctionError`` where a Local cannot be checkpointed.
        """
        return self._snapshot(self._encoded_locals(), [track.full_delta() for track in self._tracks])

    def collect(self) -> None:
        """From here on all that changes is collected, for parts that rest on a snapshot of now."""
        for track in self._tracks:
            track.collect()

    def stop_collecting(self) -> None:
        """No part follows."""
        for track in self._tracks:
            track.stop_collecting()

    def part(self, rests_on: Sequence[str], joined: int) -> Part:
        """As ``snapshot``: the changes since the last of ``rests_on``, behind which ``joined`` parts were made.

        All deltas must have been taken.
        """
        encoded = self._encoded_locals()
        parts = [track.part(joined) for track in self._tracks]
        head = PartHead(list(rests_on), [part.dropped_through_ms for part in parts])
        return Part(head, self._snapshot(encoded, [part.delta for part in parts]))

    @property
    def _tracks(self) -> list[OwnTrack]:
        """In the order of ``PartHead``."""
        return [self.scope.record, self.scope.private, *self.scope.answers]

    def _encoded_locals(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        assert not self.waiting, "a snapshot inside of a record"
        try:
            return self.scope.encode_locals("record"), self.scope.encode_locals("window")
        except UnserializableState as error:
            raise self.records.unserializable(error) from error

    def _snapshot(self, encoded: tuple[dict[str, bytes], dict[str, bytes]], tracks: list[TrackDelta]) -> Snapshot:
        slot, private, first, *later = tracks
        answers = WindowPart(
            first,
            encoded[1],
            self.outbox.window_end_ms,
            dict(sorted(self.outbox.window_counts.items())),
            later,
            self.outbox.held_parts(),
            self.scope.late.of_handlers,
        )
        record = RecordPart(
            slot,
            private,
            encoded[0],
            msgspec.structs.replace(self.records.counts),
            self.records.ended,
            self.records.duplicates.seen(),
            self.records.closing,
            self.began_behind[1] if self._last is None else record_digest(*self._last),
        )
        return Snapshot(self.partition, record, answers, self.punctuations)

    def restore(self, snapshot: Snapshot) -> None:
        """Become what ``snapshot`` describes; the task must be fresh."""
        assert snapshot.partition == self.partition, f"{snapshot.partition} != {self.partition}"
        self._load_record_part(snapshot.record)
        window = snapshot.window.split(self.job.program.last_stage)
        for track, saved in zip(self.scope.answers, (window.slot, *window.later), strict=True):
            track.restore(saved)
        self.scope.reset_locals({**snapshot.record.locals, **window.locals})
        self.outbox.window_end_ms = window.emitted_end_ms
        self.outbox.window_counts = dict(window.emitted)
        self.outbox.hold_again(window.held)
        self.scope.late.of_handlers = window.late_inserts
        self.punctuations = snapshot.punctuations

    def _load_record_part(self, part: RecordPart) -> None:
        self.scope.record.restore(part.slot)
        self.contributions.begin()
        self.scope.private.restore(part.private)
        self.records.restore(part)
        self.began_behind = part.slot.to[0] - 1, part.last

    # --- binding --------------------------------------------------------------------------------------------------

    def _bind(self, handles: dict[Any, Any]) -> tuple[Functions, dict[WindowHandler, Any]]:
        program = self.job.program
        if program.root is None:
            for bound in program.bound.values():
                handles[bound.decl] = self._handle(bound.name, bound.decl)
            windows = {h: h.function for h in program.handlers}
            return Functions(program.record_function, program.batch_function, program.is_async), windows
        root = instantiate(program.root)
        by_path = dict(paths(root))
        for path, function in by_path.items():
            own = {b.decl: self._handle(b.name, b.decl) for b in program.bound.values() if b.path == path}
            # In the instance itself too: found there without a call of the declaration's __get__.
            function.__dict__.update({name: own[decl] for name, decl in own_states(function) if decl in own})
            function.__dict__["_handles"] = own
            handles.update(own)
        windows = {h: getattr(by_path[h.path], h.method) for h in program.handlers}
        record = root.process if program.record_function is not None else None
        batch = root.process_batch if program.batch_function is not None else None
        return Functions(record, batch, program.is_async), windows

    def _handle(self, name: str, decl: StateDeclaration) -> WindowedHandle[Any, Any] | LocalHandle[Any]:
        if isinstance(decl, Windowed):
            return windowed_handle(self.scope, name, decl.bottom, decl.windows, self.scope.gathered.get(name))
        return LocalHandle(self.scope, name, decl)  # type: ignore[arg-type]
