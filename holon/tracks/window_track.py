"""The window track: completed windows, in the order of their ends, into continuations.

Its state is a function of the completed windows alone. Handlers of stage n may write states of later stages, which
complete when every partition has answered stage n (docs/design/procedural-api.md). Each stage answers, in the order
of their ends, all windows that are complete; how far it is ahead of the next stage is an accident that nothing depends
on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holon.errors import USER_ERRORS, HolonError, JobError, UserFunctionError, described
from holon.outputs.outbox import Outbox
from holon.program.context import Context, responsible_partition
from holon.program.function import failure_stops_the_job
from holon.program.program import JobProgram, WindowHandler
from holon.program.scope import Scope
from holon.time.event_time import MAX_TS_MS
from holon.tracebacks import own_frames
from holon.tracks.failed_records import blamed
from holon.tracks.handler_undo import HandlerUndo
from holon.tracks.job_code import FunctionCall, runs_job_code
from wcrdt.replica.replica import Replica
from wcrdt.replica.slots import OwnTrack, Position
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS, Window
from wcrdt.windows.ends import EndIndex
from wcrdt.windows.held_longer import shown

Windows = dict[str, list[Window]]
"""Of one end, by state."""
DELTA_BYTES = 16 << 20
"""So much of what a stage has written goes into one delta, before it answers more: no reader takes four times that."""


class WindowTrack:
    """Runs the ``on_window`` handlers of one partition.

    ``answered_ms``: by stage, the end of the last windows that had a handler.
    """

    def __init__(
        self,
        job_name: str,
        program: JobProgram,
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
        self.answered_ms = [BEFORE_TIME_MS] * (self.last_stage + 1)
        self.at_ms = BEFORE_TIME_MS
        """The end that was answered last, by whichever stage."""
        self._by_stage = [program.handlers_at(stage) for stage in range(self.last_stage + 1)]
        self._states = [list(dict.fromkeys(h.state for h in found)) for found in self._by_stage]
        self._lockstep = program.in_lockstep
        self._private_ends = EndIndex()
        self._private_through: int | None = None
        self._has_private_ends = any(not scope.windowed[state].shared for state in self._states[0])
        self._has_private = any(not decl.shared for decl in scope.windowed.values())
        self._undo = HandlerUndo(scope, outbox)
        buries = outbox.on_error == "dead-letter"
        self._undoable = {of for of, function in handlers.items() if buries and not failure_stops_the_job(function)}

    @property
    def position(self) -> Position:
        """(window end, last stage) up to which every stage has answered every completed window."""
        return self.scope.answers[-1].position

    @property
    def ends_ms(self) -> list[int]:
        """Through which window end each stage has answered: it never ascends from one to the next."""
        return [track.position[0] for track in self.scope.answers]

    @property
    def done(self) -> bool:
        """True once the last window of a bounded input is answered."""
        return self.position[0] >= END_OF_TIME_MS

    def function_call(self) -> FunctionCall:
        """Where the job's code is being called."""
        return FunctionCall(self.ctx.partition, self.scope.record.position[0], f"the window after {self.at_ms} ms")

    def record_offset(self) -> int:
        """No record is in hand."""
        return -1

    def left(self) -> int:
        """How many windows have a handler that has not run yet, as far as they are known here; of all stages."""
        return sum(
            self._left(state, self.scope.answers[stage].position[0])
            for stage, states in enumerate(self._states)
            for state in states
        )

    def _left(self, state: str, after_ms: int) -> int:
        if self.scope.windowed[state].shared:
            return self.scope.shared.ends_after(state, after_ms)
        return len(self.scope.own.ended(state, after_ms, END_OF_TIME_MS))

    def advance(self) -> bool:
        """Answer every window that is complete; True if the track moved.

        Raises ``UserFunctionError`` where a handler raised, unless its window goes to the dead-letter output.
        """
        moved = False
        while any(self._advance(stage) for stage in range(self.last_stage + 1)):
            moved = True
        return moved

    def _advance(self, stage: int) -> bool:
        """Let one stage answer what is complete; True if it moved."""
        track = self.scope.answers[stage]
        end_ms, through_ms = track.position[0], self._complete_through(stage)
        assert end_ms >= self.replica.dropped_through_ms, (
            f"partition {self.ctx.partition} is at {track.position}, but windows through "
            f"{self.replica.dropped_through_ms} were dropped"
        )
        if through_ms <= end_ms or (not self.scope.windowed and through_ms < END_OF_TIME_MS):
            return False
        if self._lockstep and stage == 0:
            if self.position[0] < end_ms:
                return False
            next_ms = self._next_end(end_ms, through_ms)
            # Others may write into windows that end before, at ends that only they know: these come first.
            through_ms = next_ms - 1 if self._has_private_ends and next_ms > end_ms + 1 else next_ms
        for at_ms, windows in self._ended(stage, end_ms, through_ms):
            if self._is_full(stage, track):
                return track.position[0] > end_ms
            self._answer(stage, at_ms, windows)
        self._move(stage, through_ms)
        return True

    def _is_full(self, stage: int, track: OwnTrack) -> bool:
        return stage < self.last_stage and track.unsent_bytes() >= DELTA_BYTES

    def _complete_through(self, stage: int) -> int:
        """Windows of a stage's states that end at or before this can be read here.

        A partition that was taken over may have published more than its new owner has processed so far. Its private
        windows are complete only when the record track has come as far again.
        """
        if stage > 0:
            # All have answered the stage before, and this partition too: another incarnation may have published more.
            return min(self.replica.answered_ms(stage - 1), self.scope.answers[stage - 1].position[0])
        through = self.scope.shared.complete_through_ms
        if not self._has_private:
            return through
        own = self.scope.record.watermark_ms
        return min(through, own if own >= END_OF_TIME_MS else own - self.replica.lateness_ms)

    def _ended(self, stage: int, after_ms: int, through_ms: int) -> list[tuple[int, Windows]]:
        """The stage's complete windows that end in ``(after_ms, through_ms]``, by end, then by state."""
        by_end: dict[int, Windows] = {}
        for state in self._states[stage]:
            for window in self._windows(state, after_ms, through_ms):
                by_end.setdefault(window.end_ms, {}).setdefault(state, []).append(window)
        return sorted(by_end.items(), key=_end)

    def _windows(self, state: str, after_ms: int, through_ms: int) -> list[Window]:
        if self.scope.windowed[state].shared:
            return self.scope.shared.ended(state, after_ms, through_ms)
        return self.scope.own.ended(state, after_ms, through_ms)

    def _next_end(self, after_ms: int, through_ms: int) -> int:
        """The first end in ``(after_ms, through_ms]`` of a window that a handler of any stage waits for."""
        if self._private_through != through_ms:
            self._private_through, self._private_ends = through_ms, EndIndex()
            for state in self._states[0]:
                if not self.scope.windowed[state].shared:
                    for window in self._windows(state, after_ms, through_ms):
                        self._private_ends.add(window)
        ends = [self._private_ends.first(after_ms)]
        ends += [
            self.scope.shared.first_end(state, after_ms)
            for states in self._states
            for state in states
            if self.scope.windowed[state].shared
        ]
        return min((end for end in ends if end is not None and end <= through_ms), default=through_ms)

    def _answer(self, stage: int, end_ms: int, windows: Windows) -> None:
        """Run all handlers of one stage for the windows with this end."""
        for handler in self._by_stage[stage]:
            for window in sorted(windows.get(handler.state, ())):
                if (
                    handler.scope == "partition"
                    or responsible_partition(window, self.ctx.partitions) == self.ctx.partition
                ):
                    self._run(handler, window, stage)
        self.answered_ms[stage] = end_ms
        self._move(stage, end_ms)

    @runs_job_code
    def _run(self, handler: WindowHandler, window: Window, stage: int) -> None:
        self.scope.enter_window(window, stage)
        self.outbox.enter_window(window.end_ms)
        self.ctx.offset = -1
        window = shown(self.scope.windowed[handler.state].windows, window)
        # As in Flink: the last time that lies inside; of windows that end later than any event, the last of all times.
        self.ctx.timestamp_ms = min(window.end_ms, MAX_TS_MS) - 1
        undoable = handler in self._undoable
        if undoable:
            self._undo.keep(stage)
        try:
            outcome = self.handlers[handler](window, self.ctx)
            if hasattr(outcome, "send"):
                outcome = self._finish(outcome)
            self.scope.left(f"{handler.path}{handler.method}", outcome)
        except USER_ERRORS as error:
            if not undoable or isinstance(error, HolonError):  # a misuse of Holon is no window's fault
                at = f"window [{window.start_ms}, {window.end_ms}) in {handler.path}{handler.method}"
                what, cause = blamed(error)
                raise UserFunctionError(self.job_name, self.ctx.partition, at, cause, what) from cause
            self._undo.roll_back()
            reason = f"the handler raised {described(error)}\n{own_frames(error)}".rstrip()
            self.outbox.emit_dead(None, window, f"{handler.path}{handler.method}", None, reason)
        else:
            if undoable:
                self._undo.forget()

    def _finish(self, coroutine: Any) -> Any:
        """The value that it returns.

        Every value that a handler may await is there already, so it never waits.
        """
        try:
            awaited = coroutine.send(None)
        except StopIteration as done:
            return done.value
        coroutine.close()
        raise JobError(f"an on_window handler may only await window_value, not {awaited!r}")

    def _move(self, stage: int, end_ms: int) -> None:
        track = self.scope.answers[stage]
        track.position, track.watermark_ms, self.at_ms = (end_ms, stage), end_ms, end_ms
        if stage == self.last_stage > 0:
            self.outbox.release_windows(end_ms)


def _end(ended: tuple[int, Windows]) -> int:
    return ended[0]
