"""Runs of records by columns, where what ``process`` does with them is known: the same results at less cost.

A run goes so as a whole or not at all: a failure leaves it to the loop over records, before anything has changed.
"""

from __future__ import annotations

from holon.columnar.loops import installed
from holon.errors import USER_ERRORS
from holon.formats.input_run import Input
from holon.formats.json_columns import TOO_LARGE
from holon.job import ColumnForm
from holon.outputs.outbox import Outbox
from holon.program.insert_arguments import ColumnEffects, check_heights, checked_times
from holon.program.scope import Scope
from holon.tracks.admission import Admission, Admitted

LONGEST_PAUSE = 64


class ColumnRuns:
    """The runs of one partition; ``admission`` is that of the form's source."""

    def __init__(self, form: ColumnForm, admission: Admission, scope: Scope, outbox: Outbox) -> None:
        self._form = form
        self._admission = admission
        self._scope = scope
        self._outbox = outbox
        self._pause = self._left = 0
        """Runs that go by the loop since others had to: twice as many each time, since the attempt is not free."""

    def process(self, run: Input) -> Admitted | None:
        """Insert and emit what ``process`` would; None: nothing was done, and the records are for the loop.

        Rows that were late for a state are still to be taken from the scope.
        """
        if len(run) < self._form.fewest or (self._form.compiled and installed() is None):
            return None
        if self._left:
            self._left -= 1
            return None
        try:
            found = self._prepared(run)
        except USER_ERRORS:  # the loop meets it at its record
            self._outbox.abandon_batch()
            found = None
        if found is None:
            self._pause = self._left = min(max(1, 2 * self._pause), LONGEST_PAUSE)
            return None
        self._pause = 0
        admitted, effects = found
        if len(admitted.batch):
            self._scope.enter_rows(admitted.watermarks_ms, admitted.watermark_ms)
            for one in effects.inserts:
                self._scope.insert_many(one.state, one.elements, one.ts_ms, one.rows)
            if effects.outputs:
                self._outbox.leave_batch()
        return admitted

    def _prepared(self, run: Input) -> tuple[Admitted, ColumnEffects] | None:
        """The records as decided, and the effects: inserts will all be taken, and outputs wait for the batch's end."""
        before_ms = self._scope.record.watermark_ms
        admitted = self._admission.admit(
            run.payloads, run.offsets, run.timestamps_ms, before_ms, run.parts, run.refused
        )
        if any(dead.reason.endswith(TOO_LARGE) for dead in admitted.dead):
            return None
        effects = self._form.effects(admitted.batch) if len(admitted.batch) else ColumnEffects((), ())
        if effects is None:
            return None
        for one in effects.inserts:
            check_heights(one.state, one.elements, len(checked_times(one.state, one.ts_ms)))
            self._scope.windowed[one.state].bottom.check_many(one.elements)
        if effects.outputs:
            self._outbox.enter_batch(admitted.batch.offsets)
            for each in effects.outputs:
                self._outbox.emit_many(each.output, each.values, each.rows, each.keys)
        return admitted, effects
