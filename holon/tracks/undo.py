"""Undoing what a run of records did to a partition, where a record that fails goes to the dead-letter output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from holon.outputs.outbox import Outbox
from holon.program.scope import Scope
from holon.tracks.admission import AdmissionCounts


class _KeptValues(NamedTuple):
    """The values kept beside the windows: counts, encoded Locals, lengths of what was emitted."""

    counts: AdmissionCounts
    locals: dict[str, bytes]
    emitted: dict[tuple[str, int], int]


class Undo:
    """Takes the record track back to where ``keep`` was called; costs what is written to, and all Locals.

    A record that has only inserted and emitted is taken back alone.
    """

    def __init__(self, scope: Scope, outbox: Outbox) -> None:
        self.scope = scope
        self.outbox = outbox
        self._kept: _KeptValues | None = None
        self._gathered = list(scope.gathered.values())
        self.marks = _lengths([rows.times for rows in self._gathered])
        """How much is gathered of each state."""

    def keep(self, counts: AdmissionCounts) -> None:
        """Be ready to come back to here; nothing is gathered."""
        self.scope.record.keep()
        self.scope.private.keep()
        self._kept = _KeptValues(
            msgspec.structs.replace(counts), self.scope.encode_locals("record"), self.outbox.lengths()
        )

    def forget(self) -> None:
        """The changes since ``keep`` stay."""
        self.scope.record.forget_kept()
        self.scope.private.forget_kept()
        self._kept = None

    def leave_out(self, marks: Sequence[int]) -> bool:
        """Take back what the record in hand did after ``marks``; False if it did more than can be taken back so."""
        if self.scope.wrote or self.scope.checkpointable.used:
            return False
        for rows, count in zip(self._gathered, marks, strict=True):
            rows.cut_back(count)
        self.scope.late.take()
        self.outbox.undo_record()
        return True

    def roll_back(self) -> AdmissionCounts:
        """Come back to ``keep``; returns the counts as of then."""
        assert self._kept is not None, "roll_back without keep"
        kept, self._kept = self._kept, None
        self.scope.record.roll_back()
        self.scope.private.roll_back()
        self.scope.forget_gathered()
        self.scope.late.take()
        self.scope.locals.update(self.scope.decode_locals(kept.locals))
        self.outbox.cut_back(kept.emitted)
        return kept.counts


def _lengths(lists: list[list[Any]]) -> Callable[[], Sequence[int]]:
    """A function that gives the lengths. It is called for each record: those of few lists cost half of a loop."""
    if len(lists) == 1:
        (only,) = lists
        return lambda: (len(only),)
    if len(lists) == 2:
        first, second = lists
        return lambda: (len(first), len(second))
    if len(lists) == 3:
        first, second, third = lists
        return lambda: (len(first), len(second), len(third))
    return lambda: (*map(len, lists),)
