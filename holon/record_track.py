"""The record track: a partition's input, record after record, into state and outputs.

Its state is a function of the input prefix alone (``design.md`` section 4): nothing here looks at what other
partitions or the window track did, except through awaited, completed windows.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.admit import Admission, Admitted, Counts, Diverted, late_reason
from holon.context import Context
from holon.errors import HolonError, JobError, UserFunctionError
from holon.handles import SafeRead
from holon.job import DEAD, LATE, Job, encode_json
from holon.outbox import Outbox
from holon.scope import Scope, Standing
from wcrdt.windows import END_OF_TIME_MS

USER_ERRORS = (Exception, SystemExit)
"""What the user's own code may raise without taking the node along."""


@dataclass(slots=True, frozen=True)
class Input:
    """A run of records of the input partition as columns (what the log's chunk holds, without the log)."""

    offsets: NDArray[np.int64]
    timestamps_ms: NDArray[np.int64]
    payloads: list[bytes]
    next_offset: int

    def cut(self, start: int, stop: int) -> Input:
        """Rows ``start`` to ``stop`` (exclusive) as a run of their own."""
        end = self.next_offset if stop >= len(self.payloads) else int(self.offsets[stop])
        return Input(self.offsets[start:stop], self.timestamps_ms[start:stop], self.payloads[start:stop], end)

    def __len__(self) -> int:
        return len(self.payloads)


@dataclass(slots=True, frozen=True)
class Functions:
    """The partition's own bound functions; exactly one of ``record`` and ``batch``."""

    record: Callable[..., Any] | None
    batch: Callable[..., Any] | None
    is_async: bool


@dataclass(slots=True, frozen=True)
class _Waiting:
    """An async ``process`` that stands at a safe read, and the rest of its run."""

    coroutine: Coroutine[Any, Any, Any]
    read: SafeRead[Any]
    run: Input
    admitted: Admitted
    row: int
    scope: Standing
    counts: dict[str, int]


class RecordTrack:
    """Runs ``process`` or ``process_batch`` of one partition.

    ``save`` and ``load`` keep and restore the track in memory; used only with ``on_error="dead-letter"``.
    """

    def __init__(self, job: Job, scope: Scope, outbox: Outbox, ctx: Context, functions: Functions) -> None:
        self.job = job
        self.scope = scope
        self.outbox = outbox
        self.ctx = ctx
        self.functions = functions
        record_states = [decl for decl in scope.windowed.values() if decl.stage == 0]
        self.admission = Admission(job.source, record_states, job.allowed_lateness_ms)
        self.counts = Counts()
        self.ended = False
        self.buries = job.on_error == "dead-letter"
        self.save: Callable[[], Any] = lambda: None
        self.load: Callable[[Any], None] = lambda _: None
        self._waiting: _Waiting | None = None
        self._rest: list[Input] = []

    @property
    def next_offset(self) -> int:
        return self.scope.record.position[0]

    @property
    def read(self) -> SafeRead[Any] | None:
        """The safe read that an async ``process`` waits for, or None if the track can go on."""
        return None if self._waiting is None else self._waiting.read

    # --- what moves the track -------------------------------------------------------------------------------------

    def feed(self, run: Input) -> None:
        """Process a run that starts at ``next_offset`` (offsets may have gaps).

        Raises ``UserFunctionError`` where the user's code raised and the record cannot go to the dead-letter output.
        """
        assert self._waiting is None and not self.ended, "fed while waiting or after the end"
        assert not len(run) or run.offsets[0] >= self.next_offset, f"{run.offsets[0]} < {self.next_offset}"
        self._rest.append(run)
        self._go_on()

    def resume(self) -> bool:
        """Go on after a safe read that has completed; True if the track moved."""
        waiting = self._waiting
        if waiting is None or not waiting.read.ready:
            return False
        self._waiting = None
        self.scope.resume_record(waiting.scope)
        self.outbox.resume_record(int(waiting.admitted.batch.offsets[waiting.row]), waiting.counts)
        self._set_context(waiting.admitted, waiting.row)
        try:
            done = self._drive(waiting.coroutine, waiting.run, waiting.admitted, waiting.row)
        except USER_ERRORS as error:
            raise self._error(str(self.ctx.offset), error) from error
        if done:
            self._record_done(waiting.admitted, waiting.row)
            self._feed_records(waiting.run, waiting.admitted, waiting.row + 1)
            self._go_on()
        return True

    def _go_on(self) -> None:
        """Work off what is left of the runs, in order; an async track with dead letters goes record by record."""
        while self._rest and self._waiting is None:
            run = self._rest.pop(0)
            if self.buries and self.functions.is_async and len(run) > 1:
                self._rest.insert(0, run.cut(1, len(run)))
                run = run.cut(0, 1)
            self._feed(run)

    def punctuate(self, watermark_ms: int) -> None:
        """The partition is idle at this position: its event time moves all the same."""
        offset, step = self.scope.record.position
        self.scope.record.position = (offset, step + 1)
        self.scope.record.watermark_ms = max(self.scope.record.watermark_ms, watermark_ms)

    def end(self) -> None:
        """End of input: nothing can keep a window open any more."""
        if not self.ended:
            self.ended = True
            self.punctuate(END_OF_TIME_MS)

    # --- one run --------------------------------------------------------------------------------------------------

    def _feed(self, run: Input) -> None:
        record = self.scope.record
        try:
            admitted = self.admission.admit(run.payloads, run.offsets, run.timestamps_ms, record.watermark_ms)
        except USER_ERRORS as error:  # the job's timestamp or where function
            self._run_failed(run, error)
            return
        if self.functions.batch is not None:
            self._feed_batch(run, admitted)
        else:
            self._feed_records(run, admitted, 0)

    def _feed_batch(self, run: Input, admitted: Admitted) -> None:
        assert self.functions.batch is not None
        saved = self.save() if self.buries else None
        try:
            if len(admitted.batch):
                self.ctx.offset = -1
                self.scope.enter_rows(admitted.watermarks_ms, admitted.watermark_ms)
                self.outbox.enter_batch(admitted.batch.offsets)
                self.functions.batch(admitted.batch, self.ctx)
                self.outbox.leave_batch()
        except USER_ERRORS as error:
            self.load(saved)
            self._run_failed(run, error)
            return
        self.counts.accepted += len(admitted.batch)
        self._settle(run, admitted)

    def _feed_records(self, run: Input, admitted: Admitted, row: int) -> None:
        function = self.functions.record
        assert function is not None
        saved = self.save() if self.buries and row == 0 else None
        events = admitted.batch.events
        while row < len(admitted.batch):
            if self._enter(admitted, row):
                try:
                    outcome = function(events[row], self.ctx)
                    if self.functions.is_async and not self._drive(outcome, run, admitted, row):
                        return
                except USER_ERRORS as error:
                    self._record_failed(run, admitted, row, error, saved)
                    return
                self._record_done(admitted, row)
            row += 1
        self._settle(run, admitted)

    def _enter(self, admitted: Admitted, row: int) -> bool:
        """Make the row the record in hand; False if a promise made earlier in this run turned it late."""
        promised = self.scope.record.watermark_ms
        before = int(admitted.watermarks_ms[row])
        if promised > before:
            before = promised
            ts = int(admitted.batch.ts_ms[row])
            if self.admission.is_late(ts, promised):
                admitted.late.append((int(admitted.index[row]), late_reason(ts)))
                return False
        self._set_context(admitted, row)
        self.scope.enter_record(before, max(int(admitted.next_watermarks_ms[row]), promised))
        self.outbox.enter_record(self.ctx.offset)
        return True

    def _set_context(self, admitted: Admitted, row: int) -> None:
        self.ctx.offset = int(admitted.batch.offsets[row])
        self.ctx.timestamp_ms = int(admitted.batch.ts_ms[row])

    def _record_done(self, admitted: Admitted, row: int) -> None:
        self.counts.accepted += 1
        if self.scope.next_watermark_ms > admitted.next_watermarks_ms[row]:  # increment_watermark was called
            self.scope.record.watermark_ms = max(self.scope.record.watermark_ms, self.scope.next_watermark_ms)

    def _drive(self, coroutine: Coroutine[Any, Any, Any], run: Input, admitted: Admitted, row: int) -> bool:
        """Run an async ``process`` to its end (True) or to a safe read that is not complete yet (False)."""
        try:
            read = coroutine.send(None)
        except StopIteration:
            return True
        if not isinstance(read, SafeRead):
            coroutine.close()
            raise JobError(f"process may only await window_value, not {read!r}: I/O and timers are not deterministic")
        standing = self.scope.leave_record()
        self._waiting = _Waiting(coroutine, read, run, admitted, row, standing, self.outbox.record_counts())
        # What this record did before the await is part of the prefix that others must see, or nobody would move on.
        self.scope.record.position = (self.ctx.offset, self.scope.awaits)
        self.scope.record.watermark_ms = max(self.scope.record.watermark_ms, self.scope.next_watermark_ms)
        return False

    # --- failures of the user's code ------------------------------------------------------------------------------

    def _run_failed(self, run: Input, error: BaseException) -> None:
        """Halve the run until the one record stands alone; where the job stops anyway, name the run."""
        first, last = int(run.offsets[0]), int(run.offsets[-1])
        if not self.buries or isinstance(error, HolonError):
            raise self._error(f"{first}" if first == last else f"{first} to {last} (a batch)", error) from error
        if len(run) > 1:
            half = len(run) // 2
            self._rest[:0] = [run.cut(0, half), run.cut(half, len(run))]
            return
        self._bury(run, error)

    def _record_failed(self, run: Input, admitted: Admitted, row: int, error: BaseException, saved: Any) -> None:
        if not self.buries or self.scope.awaits or isinstance(error, HolonError):
            raise self._error(str(self.ctx.offset), error) from error
        # Everything from the start of the run is done again without the record: the function is deterministic.
        self.load(saved)
        index = int(admitted.index[row])
        if index > 0:
            self._feed(run.cut(0, index))
        self._bury(run.cut(index, index + 1), error)
        if index + 1 < len(run):
            self._rest.insert(0, run.cut(index + 1, len(run)))

    def _bury(self, run: Input, error: BaseException) -> None:
        """The one record of this run goes to the dead-letter output; it moves nothing but the position."""
        reason = f"the processing function raised {type(error).__name__}: {error}"
        self._divert(DEAD, run, [(0, reason)])
        self.counts.dead += 1
        self.scope.record.position = (run.next_offset, 0)

    def _error(self, at: str, error: BaseException) -> UserFunctionError:
        details = "".join(traceback.format_exception(error))
        return UserFunctionError(self.job.name, self.scope.partition, "offset", at, error, details)

    # --- after a run ----------------------------------------------------------------------------------------------

    def _settle(self, run: Input, admitted: Admitted) -> None:
        """Late and dead records to their outputs, counts, position and watermark."""
        self._divert(LATE, run, sorted(admitted.late))
        self._divert(DEAD, run, admitted.dead)
        self.counts.filtered += admitted.filtered
        self.counts.late += len(admitted.late)
        self.counts.dead += len(admitted.dead)
        record = self.scope.record
        record.position = (run.next_offset, 0)
        record.watermark_ms = max(record.watermark_ms, admitted.watermark_ms)

    def _divert(self, output: str, run: Input, rows: list[tuple[int, str]]) -> None:
        for index, reason in rows:
            offset, ts = int(run.offsets[index]), int(run.timestamps_ms[index])
            diverted = Diverted(self.job.source.topic, self.scope.partition, offset, ts, reason, run.payloads[index])
            self.outbox.divert(output, offset, encode_json(diverted))
