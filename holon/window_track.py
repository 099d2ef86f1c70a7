"""The window track: completed windows, in the order of their ends, into continuations.

Its state is a function of the completed windows alone. The order is (window end, stage), so that handlers of stage n
may write states of stage n + 1, which complete when every partition has answered stage n (``design.md`` section 4).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from holon.context import Context, elected_partition
from holon.errors import JobError, UserFunctionError
from holon.outbox import Outbox
from holon.program import Program, WindowHandler
from holon.record_track import USER_ERRORS
from holon.scope import Scope
from wcrdt.replica import Replica
from wcrdt.slots import WINDOW_START, Position
from wcrdt.windows import END_OF_TIME_MS, Window

Windows = dict[str, dict[Window, None]]
"""By state, as ordered sets."""


class WindowTrack:
    """Runs the ``on_window`` handlers of one partition."""

    def __init__(
        self,
        job_name: str,
        program: Program,
        scope: Scope,
        replica: Replica,
        outbox: Outbox,
        ctx: Context,
        handlers: dict[WindowHandler, Callable[..., Any]],
    ) -> None:
        self.job_name = job_name
        self.program = program
        self.scope = scope
        self.replica = replica
        self.outbox = outbox
        self.ctx = ctx
        self.handlers = handlers
        self.last_stage = program.last_stage
        self.answered: Position = WINDOW_START  # the last windows that had a handler
        self._plan: list[tuple[int, Windows]] = []
        self._planned_through: int | None = None
        self._has_private = any(not decl.shared for decl in scope.windowed.values())

    @property
    def position(self) -> Position:
        """(window end, stage) up to which every completed window is answered."""
        return self.scope.answers.position

    @property
    def done(self) -> bool:
        """True once the last window of a bounded input is answered."""
        return self.position >= (END_OF_TIME_MS, self.last_stage)

    def advance(self) -> bool:
        """Answer every window that is complete; True if the track moved.

        Raises ``UserFunctionError`` where a handler raised: a window's failure is no record's fault, so it always
        stops the job.
        """
        start = self.position
        while self._step():
            pass
        return self.position > start

    def _step(self) -> bool:
        end_ms, stage = self.position
        if stage < self.last_stage:
            # Handlers of the stage before may have written windows with this end on other partitions.
            if self.replica.answered < (end_ms, stage):
                return False
            return self._answer(end_ms, stage + 1)
        through = self._complete_through()
        assert (end_ms, stage) >= (self.replica.dropped_through_ms, 0), (
            f"partition {self.ctx.partition} stands at {self.position}, but windows through "
            f"{self.replica.dropped_through_ms} were dropped"
        )
        if through <= end_ms or (not self.scope.windowed and through < END_OF_TIME_MS):
            return False
        if self._planned_through != through or self.last_stage > 0:  # later stages gain windows as handlers run
            self._plan = self._plan_through(end_ms, through)
            self._planned_through = through
        if not self._plan:
            self._move((through, self.last_stage))
            return False
        return self._answer(self._plan[-1][0], 0)

    def _complete_through(self) -> int:
        """Windows of all states that end at or before this can be read here.

        A partition that was taken over may have published more than its new owner has processed so far: what is
        private to it is complete only when the record track has come as far again.
        """
        through = self.replica.complete_through_ms
        if not self._has_private:
            return through
        own = self.scope.record.watermark_ms
        return min(through, own if own >= END_OF_TIME_MS else own - self.replica.lateness_ms)

    def _plan_through(self, after_ms: int, through_ms: int) -> list[tuple[int, Windows]]:
        """Complete windows with a handler that end in ``(after_ms, through_ms]``, by end, the first one last."""
        by_end: dict[int, Windows] = {}
        for state in {handler.state: None for handler in self.program.handlers}:
            for window in self._ended(state, after_ms, through_ms):
                by_end.setdefault(window.end_ms, {}).setdefault(state, {})[window] = None
        return sorted(by_end.items(), key=_end, reverse=True)

    def _ended(self, state: str, after_ms: int, through_ms: int) -> list[Window]:
        if self.scope.windowed[state].shared:
            return self.replica.ended(state, after_ms, through_ms)
        mine = self.scope.private.contributions.get(state, ())
        return [window for window in mine if after_ms < window.end_ms <= through_ms]

    def _answer(self, end_ms: int, stage: int) -> bool:
        """Run all handlers of one stage for the windows with this end."""
        planned = self._plan.pop()[1] if stage == 0 else None
        for handler in self.program.handlers_at(stage):
            if planned is None:
                windows = dict.fromkeys(self._ended(handler.state, end_ms - 1, end_ms))
            else:
                windows = planned.get(handler.state, {})
            for window in sorted(windows):
                if not handler.once or elected_partition(window, self.ctx.partitions) == self.ctx.partition:
                    self._run(handler, window, stage)
        self.answered = (end_ms, stage)
        self._move(self.answered)
        return True

    def _run(self, handler: WindowHandler, window: Window, stage: int) -> None:
        self.scope.enter_window(window, stage)
        self.outbox.enter_window(window.end_ms)
        self.ctx.offset = -1
        self.ctx.timestamp_ms = window.end_ms - 1  # as in Flink: the last time that lies inside
        try:
            outcome = self.handlers[handler](window, self.ctx)
            if hasattr(outcome, "send"):
                self._finish(outcome)
        except USER_ERRORS as error:
            at = f"window [{window.start_ms}, {window.end_ms}) in {handler.path}{handler.method}"
            details = "".join(traceback.format_exception(error))
            raise UserFunctionError(self.job_name, self.ctx.partition, at, error, details) from error

    def _finish(self, coroutine: Any) -> None:
        """Every value that a handler may await is there already, so it never stands still."""
        try:
            awaited = coroutine.send(None)
        except StopIteration:
            return
        coroutine.close()
        raise JobError(f"an on_window handler may only await window_value, not {awaited!r}")

    def _move(self, to: Position) -> None:
        self.scope.answers.position = to
        self.scope.answers.watermark_ms = to[0]


def _end(planned: tuple[int, Windows]) -> int:
    return planned[0]
