"""Undoing what a handler did before it raised, where its window goes to the dead-letter output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holon.outputs.outbox import KeptOutputs, Outbox
from holon.program.scope import Scope
from wcrdt.replica.slots import OwnTrack


class _Kept(NamedTuple):
    """The state that a handler found: the track that it writes to, late inserts of handlers, and what was emitted."""

    track: OwnTrack
    late_inserts: int
    outputs: KeptOutputs


class HandlerUndo:
    """Takes the window track back to where a handler began.

    Costs a copy of each window that the handler writes to, and the bytes of each Local that it uses.
    """

    def __init__(self, scope: Scope, outbox: Outbox) -> None:
        self.scope = scope
        self.outbox = outbox
        self._kept: _Kept | None = None

    def keep(self, stage: int) -> None:
        """A handler of this stage begins; scope and outbox have its window in hand."""
        track = self.scope.answers[stage]
        track.keep()
        self.scope.checkpointable.keep()
        self._kept = _Kept(track, self.scope.late.of_handlers, self.outbox.keep_window())

    def forget(self) -> None:
        """It has returned: its changes stay."""
        self._end().track.forget_kept()
        self.scope.checkpointable.take_kept()

    def roll_back(self) -> None:
        """It has raised: nothing of it stays."""
        kept = self._end()
        kept.track.roll_back()
        self.scope.late.of_handlers = kept.late_inserts
        used: Mapping[str, bytes] = self.scope.checkpointable.take_kept()
        self.scope.locals.update(self.scope.decode_locals(used))
        self.outbox.cut_back_window(kept.outputs)

    def _end(self) -> _Kept:
        assert self._kept is not None, "without keep"
        kept, self._kept = self._kept, None
        return kept
