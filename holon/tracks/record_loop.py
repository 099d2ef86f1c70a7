"""The loop over records: each goes through the job's function, at the least cost for those that are usual."""

from __future__ import annotations

from collections.abc import Sequence

from holon.errors import USER_ERRORS, HolonError
from holon.outputs.outbox import Outbox
from holon.program.context import Context
from holon.program.function import Functions
from holon.program.scope import LOWEST_MS, Scope
from holon.tracks.admission import Admission, AdmissionCounts, Admitted, RefusedEvent, late_reason
from holon.tracks.failed_records import FailedRun
from holon.tracks.undo import Undo
from holon.tracks.waiting_record import InHand


class RecordLoop:
    """Runs ``process`` of one partition, record after record. ``undo`` None: a record that fails stops the job."""

    def __init__(
        self,
        functions: Functions,
        scope: Scope,
        outbox: Outbox,
        ctx: Context,
        admission: Admission,
        undo: Undo | None,
    ) -> None:
        self.functions = functions
        self.scope = scope
        self.outbox = outbox
        self.ctx = ctx
        self.admission = admission
        self.undo = undo

    async def run(self, hand: InHand, counts: AdmissionCounts) -> BaseException | None:
        """Process the rows; yields each safe read that is not complete yet. Returns the error of ``hand.row``, or None.

        One coroutine for all rows: an async function that never waits costs no more than a call.
        """
        function, is_async, admitted = self.functions.record, self.functions.is_async, hand.admitted
        assert function is not None
        scope, outbox, ctx, record = self.scope, self.outbox, self.ctx, self.scope.record
        lateness_ms = scope.replica.lateness_ms
        lowest_ms = LOWEST_MS + lateness_ms
        marks_of = None if self.undo is None else self.undo.marks
        marks: Sequence[int] = ()
        scope.touched = True  # other code may have run since the last record
        for row, event, offset, ts, before, after in admitted.rows():
            promised, own_after_ms = record.watermark_ms, after
            if promised > before:  # by a record before it in this run
                if self._turns_late(admitted, row, ts, promised):
                    continue
                before, after = promised, max(after, promised)
            ctx.offset, ctx.timestamp_ms, outbox.position, hand.row = offset, ts, offset, row
            if scope.touched or before < lowest_ms:
                scope.enter_record(before, after)
                outbox.enter_record(offset)
            else:  # the same, behind a record that has left nothing to forget
                scope.entered_ms = scope.watermark_ms = before
                scope.next_watermark_ms = after
                scope.open_from_ms = before - lateness_ms
            if marks_of is not None:
                marks = marks_of()
            try:
                outcome = await function(event, ctx) if is_async else function(event, ctx)
                if outcome is not None or scope.touched:
                    scope.left("process", outcome)
            except USER_ERRORS as error:
                if not self._leave_out(hand, error, marks):
                    return error
                continue
            if scope.touched:
                self._done(own_after_ms, counts, hand)
                if hand.admitted is not admitted:  # it has waited, and is alone since
                    return None
        return None

    def _turns_late(self, admitted: Admitted, row: int, ts_ms: int, promised_ms: int) -> bool:
        if not self.admission.is_late(ts_ms, promised_ms):
            return False
        admitted.turned_late.append(admitted.refused(row, late_reason(ts_ms)))
        return True

    def _done(self, next_watermark_ms: int, counts: AdmissionCounts, hand: InHand) -> None:
        scope = self.scope
        if scope.late.refusals:
            refusals, rows = scope.late.take()
            counts.add_late(refusals, rows)
            hand.admitted.add_late(rows, hand.row)
        if scope.next_watermark_ms > next_watermark_ms:  # increment_watermark was called
            scope.record.watermark_ms = max(scope.record.watermark_ms, scope.next_watermark_ms)

    def _leave_out(self, hand: InHand, error: BaseException, marks: Sequence[int]) -> bool:
        """Take back the record alone; False where more than its own effects follow from it, or the job stops anyway.

        One that moves event time decides about those behind it, so the loop ends there.
        """
        admitted, row = hand.admitted, hand.row
        if self.undo is None or isinstance(error, HolonError) or self.scope.awaits or hand.waited_at >= 0:
            return False
        if admitted.batch.places is not None or not self.undo.leave_out(marks):
            return False
        self.scope.touched = True
        if admitted.next_watermarks_ms[row] > admitted.watermarks_ms[row]:
            hand.taken_back = True
            return False
        admitted.failed.append(RefusedEvent(hand.index, None, FailedRun(hand.run, error).reason))
        return True
