"""The record track: a partition's input, record after record, into state and outputs.

Its state is a function of the input prefix alone (docs/design/architecture.md): nothing here reads what other
partitions or the window track did, except through awaited, completed windows.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holon.errors import USER_ERRORS, HolonError, JobError, UnserializableState, UpstreamReset, UserFunctionError
from holon.formats.formats import AtomFormat, count_events
from holon.formats.input_run import Input
from holon.input_layout import InputPartition
from holon.job import DEAD, LATE, Job
from holon.outputs.outbox import Outbox
from holon.program.context import Context
from holon.program.function import Functions
from holon.program.handles import SafeRead
from holon.program.scope import Scope
from holon.tracks.admission import (
    FIRST_RECORDS,
    Admission,
    AdmissionCounts,
    Admitted,
    RefusedEvent,
)
from holon.tracks.column_runs import ColumnRuns
from holon.tracks.failed_records import WHAT, FailedRun, blamed, blamed_rows, parted
from holon.tracks.job_code import FunctionCall, runs_job_code
from holon.tracks.record_loop import RecordLoop
from holon.tracks.side_outputs import Diversion
from holon.tracks.snapshot import RecordPart
from holon.tracks.undo import Undo
from holon.tracks.upstream_duplicates import Duplicates
from holon.tracks.waiting_record import InHand, WaitingRecord
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

FEW_RECORDS = 64
"""Of a run they cost about as much as the run itself."""
NOT_AWAITED = "process may only await window_value, not {!r}: I/O and timers are not deterministic"


class RecordTrack:
    """Runs ``process`` or ``process_batch`` of one partition.

    ``events`` is how many events the records up to here hold, counted apart from what became of them.

    The position counts records, not offsets of the log: it is the last record's offset + 1 however many offsets without
    a record follow. So all owners of the partition name the same prefix by the same position.
    """

    def __init__(
        self,
        job: Job,
        input: InputPartition,
        scope: Scope,
        outbox: Outbox,
        ctx: Context,
        functions: Functions,
        upstream: Mapping[str, int] | None,
        live_guard_ms: int | None = None,
    ) -> None:
        self.job = job
        self.input = input
        self.scope = scope
        self.outbox = outbox
        self.ctx = ctx
        self.functions = functions
        late_for = [] if job.late_records == "process" else scope.windowed.values()
        record_states = [decl for decl in late_for if decl.stage == 0]
        self.admission = Admission(input.source, record_states, job.allowed_lateness_ms, live_guard_ms)
        form = job.column_forms.get(input.source.topic)
        self._columns: ColumnRuns | None = None
        if form is not None:
            by_columns = Admission(form.source, record_states, job.allowed_lateness_ms, live_guard_ms)
            self._columns = ColumnRuns(form, by_columns, scope, outbox)
        self.counts = AdmissionCounts()
        self.duplicates = Duplicates(upstream)
        self.ended = False
        self.closing: tuple[int, int] | None = None
        self.buries = job.on_error == "dead-letter"
        self.next_offset = scope.record.position[0]
        self._undo = Undo(scope, outbox)
        self._loop = RecordLoop(functions, scope, outbox, ctx, self.admission, self._undo if self.buries else None)
        self._diversion = Diversion(input, outbox)
        self._awaits_in_atoms = functions.is_async and isinstance(input.source.format, AtomFormat)
        self._waiting: WaitingRecord | None = None
        self._rest: list[Input | FailedRun] = []
        self._end_requested = False
        self.events = 0
        self.unusual_time = ""
        self.crashed: Mapping[int, str] = {}
        """Offsets of records that end the process, and how: they go to the dead-letter output, and nobody sees them."""

    @property
    def read(self) -> SafeRead[Any] | None:
        """The safe read that an async ``process`` waits for, or None if the track can go on."""
        return None if self._waiting is None else self._waiting.read

    def function_call(self) -> FunctionCall:
        """Where the job's code is being called."""
        at = f"offset {self.ctx.offset}" if self.ctx.offset >= 0 else f"the batch from offset {self.next_offset} on"
        return FunctionCall(self.scope.partition, self.next_offset, at)

    def record_offset(self) -> int:
        """The record in hand; -1: a batch."""
        return self.ctx.offset

    def restore(self, part: RecordPart) -> None:
        """Go on from a snapshot; the scope is restored already."""
        self.counts = msgspec.structs.replace(part.counts)
        self.duplicates.restore(part.seen)
        self.events = part.counts.taken
        self.ended, self.closing = part.ended, part.closing
        self.next_offset = self.scope.record.position[0]

    # --- what moves the track -------------------------------------------------------------------------------------

    def feed(self, run: Input) -> None:
        """Process a run that starts at ``next_offset`` (offsets may have gaps), without the duplicates in it.

        Raises ``UserFunctionError`` where the user's code raised and the record cannot go to the dead-letter output,
        or where the input holds what must not be counted beside what was.
        """
        assert self._waiting is None and not self.ended, "fed while waiting or after the end"
        assert not len(run) or run.offsets[0] >= self.next_offset, f"{run.offsets[0]} < {self.next_offset}"
        kept = run if run.headers is None else self._without_duplicates(run, run.headers)
        self._rest += parted(kept, self.crashed) if self.crashed else [kept]
        self._go_on()

    def _without_duplicates(self, run: Input, headers: Sequence[bytes]) -> Input:
        try:
            kept = self.duplicates.first_copies(headers)
        except UpstreamReset as error:
            raise self._error(run, 0, error, "the source", last=len(run) - 1) from error
        if kept is None:
            return run
        removed = count_events(self.input.source.format, run.take(~kept).payloads)
        self.counts.duplicates += removed
        self.events += removed
        return run.take(kept)

    @runs_job_code
    def resume(self) -> bool:
        """Go on after a safe read that has completed; True if the track moved."""
        waiting = self._waiting
        if waiting is None or not waiting.read.ready:
            return False
        self._waiting = None
        hand = waiting.hand
        batch = hand.admitted.batch
        self.ctx.offset, self.ctx.timestamp_ms = int(batch.offsets[hand.row]), int(batch.ts_ms[hand.row])
        self.scope.resume_record(waiting.position)
        self.outbox.resume_record(self.ctx.offset, waiting.counts)
        if self._go_through(hand, waiting.loop):
            self._go_on()
        return True

    def punctuate(self, watermark_ms: int) -> None:
        """The partition is idle at this position: its event time moves all the same."""
        assert self._waiting is None, "a partition that waits inside of a record is not idle"
        offset, step = self.scope.record.position
        self.scope.record.position = (offset, step + 1)
        self.scope.record.watermark_ms = max(self.scope.record.watermark_ms, watermark_ms)

    def end(self) -> None:
        """End of input: nothing can keep a window open any more. Takes effect once nothing waits."""
        self._end_requested = True
        self._go_on()

    def _go_on(self) -> None:
        """Work off what is left of the runs, in order."""
        while self._rest and self._waiting is None:
            item = self._rest.pop(0)
            if isinstance(item, FailedRun):
                self._bury(item)
            elif not len(item):
                self._move(item)
            elif self.buries and self._awaits_in_atoms and len(item) > 1:
                # As in _wait; the events of an atom are one record, which cannot be parted when one of them waits.
                self._rest[:0] = [item.cut(row, row + 1) for row in range(len(item))]
            else:
                self._feed(item)
        if self._end_requested and not self.ended and self._waiting is None:
            self.ended = True
            tracks = self.scope.record, self.scope.private
            ends = [window.end_ms for track in tracks for windows in track.contributions.values() for window in windows]
            self.closing = self.scope.record.watermark_ms, max(ends, default=BEFORE_TIME_MS)
            self.punctuate(END_OF_TIME_MS)

    # --- one run --------------------------------------------------------------------------------------------------

    @runs_job_code
    def _feed(self, run: Input) -> None:
        self.ctx.offset = -1  # none is in hand while records are decoded
        done = None if self._columns is None else self._columns.process(run)
        if done is not None:
            self._warn_of_time(done)
            self.counts.accepted += len(done.batch)
            self._settle_rows(run, done)
            return
        try:
            admitted = self._admit(run)
        except USER_ERRORS as error:  # the job's timestamp or filter function
            self._admission_failed(run, error)
            return
        self._warn_of_time(admitted)
        if self.buries:
            try:
                self._undo.keep(self.counts)
            except UnserializableState as error:
                raise self.unserializable(error) from error
        if self.functions.batch is not None:
            self._feed_batch(run, admitted)
        else:
            hand = InHand(run, admitted)
            self._go_through(hand, self._loop.run(hand, self.counts))

    def _warn_of_time(self, admitted: Admitted) -> None:
        if self.events < FIRST_RECORDS and not self.unusual_time:
            self.unusual_time = self.admission.unusual_time(admitted.batch, self.input.place.partition)

    def _admit(self, run: Input) -> Admitted:
        watermark_ms = self.scope.record.watermark_ms
        return self.admission.admit(run.payloads, run.offsets, run.timestamps_ms, watermark_ms, run.parts, run.refused)

    def _feed_batch(self, run: Input, admitted: Admitted) -> None:
        assert self.functions.batch is not None
        filtered = late = 0
        try:
            if len(admitted.batch):
                self.ctx.offset = self.ctx.timestamp_ms = -1
                self.scope.enter_rows(admitted.watermarks_ms, admitted.watermark_ms)
                self.outbox.enter_batch(admitted.batch.offsets)
                self.scope.left("process_batch", self.functions.batch(admitted.batch, self.ctx))
                self.outbox.leave_batch()
                filtered, late = self.outbox.filtered, self.outbox.late
        except USER_ERRORS as error:
            self._batch_failed(run, error)
            return
        self.counts.accepted += len(admitted.batch) - filtered - late
        self.counts.filtered += filtered
        self.counts.late += late
        self._settle_rows(run, admitted)

    def _go_through(self, hand: InHand, loop: Coroutine[Any, Any, BaseException | None]) -> bool:
        """Process what is in hand, as far as it goes: False if a record waits."""
        try:
            read = loop.send(None)
        except StopIteration as done:
            if done.value is not None:
                self._record_failed(hand, done.value)
                return True
            self.counts.accepted += hand.accepted_before(len(hand.admitted.batch))
            self._settle(hand.run, hand.admitted)
            return True
        if not isinstance(read, SafeRead):
            hand.waited_at = hand.row  # or the loop would go on behind it
            with suppress(RuntimeError):  # the function may ignore it
                loop.close()
            raise self._error(hand.run, hand.index, JobError(NOT_AWAITED.format(read)))
        self._wait(hand, loop, read)
        return False

    def _wait(self, hand: InHand, loop: Coroutine[Any, Any, Any], read: SafeRead[Any]) -> None:
        """Wait at a safe read that is not complete yet."""
        position, counts = self.scope.leave_record(), self.outbox.record_counts()
        if hand.waited_at != hand.row:
            # Punctuations may come before the first step of the record.
            offset, step = self.scope.record.position
            hand.first_step = step if offset == self.ctx.offset else 0
        self.counts.accepted += hand.accepted_before(hand.row)
        if self.buries and len(hand.run) > 1:
            # A record that awaits publishes its prefix, so a roll-back must not reach into the record before it.
            before, behind = hand.part()
            self._rest.insert(0, behind)
            self._settle(before.run, before.admitted)
        hand.waited_at = hand.row
        self._waiting = WaitingRecord(loop, read, hand, position, counts)
        # The effects of this record before the await are part of the prefix that others must read, or no partition
        # would move on.
        self.scope.apply_all()
        self.scope.record.position = (self.ctx.offset, hand.first_step + self.scope.awaits)
        self.scope.record.watermark_ms = max(self.scope.record.watermark_ms, self.scope.next_watermark_ms)

    # --- failures of the user's code ------------------------------------------------------------------------------

    def _admission_failed(self, run: Input, error: BaseException) -> None:
        """Deciding about records has no effects, so the first one that makes it fail can be found by halving."""
        while len(run) > 1 and not isinstance(error, HolonError):
            left, right = run.cut(0, len(run) // 2), run.cut(len(run) // 2, len(run))
            try:
                self._admit(left)
            except USER_ERRORS as found:
                run, error = left, found
                self._rest.insert(0, right)
                continue
            if not self._is_buried(error):
                run = right
                continue
            self._rest[:0] = [left, right]
            return
        if not self._is_buried(error):
            raise self._error(run, 0, error, "the format, timestamp or filter function") from error
        self._rest.insert(0, FailedRun(run, error))

    def _batch_failed(self, run: Input, error: BaseException) -> None:
        """Halve the run until the one record is alone; where the job stops anyway, name the run."""
        if not self._is_buried(error):
            (row, last), (what, cause) = blamed_rows(run, error), blamed(error)
            raise self._error(run, row, cause, what, last) from cause
        self.counts = self._undo.roll_back()
        half = len(run) // 2
        self._rest[:0] = [run.cut(0, half), run.cut(half, len(run))] if half else [FailedRun(run, error)]

    def _record_failed(self, hand: InHand, error: BaseException) -> None:
        """Go on without the record; where it is not taken back, from the start of the run: code is deterministic."""
        run, index = hand.run, hand.index
        if not self._is_buried(error) or self.scope.awaits or hand.waited_at >= 0:
            raise self._error(run, index, error) from error
        bad, behind = FailedRun(run.cut(index, index + 1), error), run.cut(index + 1, len(run))
        if not hand.taken_back:
            self.counts = self._undo.roll_back()
            self._rest[:0] = [run.cut(0, index), bad, behind]
            return
        self.counts.accepted += hand.accepted_before(hand.row)
        before, _ = hand.part()
        self._settle(before.run, before.admitted)
        # The rest is decided anew: in pieces, so that a later failure does not have all of it decided once more.
        few = min(2 * index + FEW_RECORDS, len(behind))
        self._rest[:0] = [bad, behind.cut(0, few), behind.cut(few, len(behind))]

    def _is_buried(self, error: BaseException) -> bool:
        """True if the record goes to the dead-letter output; a misuse of Holon is no record's fault."""
        return self.buries and not isinstance(error, HolonError)

    def _bury(self, failed: FailedRun) -> None:
        """The record goes to the dead-letter output; it moves nothing but the position."""
        self._diversion.divert(DEAD, failed.run, [RefusedEvent(0, None, failed.reason)])
        events = count_events(self.input.source.format, failed.run.payloads)
        self.counts.dead += events
        self.events += events
        self._move(failed.run)

    def unserializable(self, error: UnserializableState) -> UserFunctionError:
        """A Local that was large when it was checked last, so that the record is not known that has changed it."""
        offset = max(self.scope.record.position[0] - 1, 0)
        at = f"offset {offset} or before"
        return self.error_at(offset, at, error)

    def error_at(self, offset: int, at: str, error: BaseException, what: str = WHAT) -> UserFunctionError:
        """At an offset of the input, with the topic where the job reads several."""
        topic, number = self.input.place if len(self.job.sources) > 1 else (None, None)
        partition = self.scope.partition
        return UserFunctionError(
            self.job.name, partition, at, error, what, offset=offset, topic=topic, topic_partition=number
        )

    def _error(
        self, run: Input, index: int, error: BaseException, what: str = WHAT, last: int = -1
    ) -> UserFunctionError:
        """At the record in a row of the run, or in the rows from it to ``last``."""
        offset, until = int(run.offsets[index]), int(run.offsets[max(index, last)])
        at = f"offset {offset}" if until == offset else f"offsets {offset} to {until} (a batch)"
        topic, number = self.input.place
        job, payload = self.job.name, run.payloads[index]
        return UserFunctionError(job, self.scope.partition, at, error, what, offset, topic, payload, number)

    # --- after a run ----------------------------------------------------------------------------------------------

    def _settle_rows(self, run: Input, admitted: Admitted) -> None:
        """As ``_settle``, of rows that went as a batch."""
        refusals, rows = self.scope.late.take()
        self.counts.add_late(refusals, rows)
        admitted.add_late(rows, -1)
        self._settle(run, admitted)

    def _settle(self, run: Input, admitted: Admitted) -> None:
        """Late and dead records to their outputs, counts, position and watermark."""
        self.events += admitted.events
        self._diversion.divert(LATE, run, admitted.late, admitted.turned_late, admitted.late_for_states)
        self._diversion.divert(DEAD, run, admitted.dead, admitted.failed)
        self.counts.late += len(admitted.late) + len(admitted.turned_late)
        self.counts.dead += len(admitted.dead) + len(admitted.failed)
        self.counts.filtered += admitted.filtered
        self.scope.record.watermark_ms = max(self.scope.record.watermark_ms, admitted.watermark_ms)
        self._move(run)
        if self.buries:
            self._undo.forget()
        self.scope.apply_all()

    def _move(self, run: Input) -> None:
        if run.last >= 0:  # offsets without a record are no part of the position
            self.scope.record.position = (run.last + 1, 0)
        self.next_offset = run.next_offset
