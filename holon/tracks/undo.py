"""Undoing what a run of records did to a partition, where a record that fails goes to the dead-letter output."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holon.outputs.outbox import Outbox
from holon.program.scope import Scope
from holon.tracks.admission import AdmissionCounts


class _Kept(NamedTuple):
    """The values kept beside the windows: counts, encoded Locals, lengths of what was emitted."""

    counts: AdmissionCounts
    locals: dict[str, bytes]
    emitted: dict[tuple[str, int], int]


class Undo:
    """Takes the record track back to where ``keep`` was called; costs what is written to, and all Locals."""

    def __init__(self, scope: Scope, outbox: Outbox) -> None:
        self.scope = scope
        self.outbox = outbox
        self._kept: _Kept | None = None

    def keep(self, counts: AdmissionCounts) -> None:
        """Be ready to come back to here."""
        self.scope.record.keep()
        self.scope.private.keep()
        self._kept = _Kept(msgspec.structs.replace(counts), self.scope.encode_locals("record"), self.outbox.lengths())

    def forget(self) -> None:
        """The changes since ``keep`` stay."""
        self.scope.record.forget_kept()
        self.scope.private.forget_kept()
        self._kept = None

    def roll_back(self) -> AdmissionCounts:
        """Come back to ``keep``; returns the counts as of then."""
        assert self._kept is not None, "roll_back without keep"
        kept, self._kept = self._kept, None
        self.scope.record.roll_back()
        self.scope.private.roll_back()
        self.scope.take_late_inserts()
        self.scope.locals.update(self.scope.decode_locals(kept.locals))
        self.outbox.cut_back(kept.emitted)
        return kept.counts
