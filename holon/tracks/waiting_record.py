"""Records in the hands of the job's function, and one that waits for a window of the replica."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from holon.formats.input_run import Input
from holon.program.handles import SafeRead
from holon.program.scope import SafeReadPosition
from holon.tracks.admission import Admitted


@dataclass(slots=True)
class InHand:
    """A run of records and the row that its processing has come to.

    ``first_step``: the step from which awaits of this row count, of a row that has waited (``waited_at``).
    ``accepted``: how many of the rows are counted already. ``taken_back``: the record in hand has failed and is
    left out.
    """

    run: Input
    admitted: Admitted
    row: int = 0
    accepted: int = 0
    waited_at: int = -1
    first_step: int = 0
    taken_back: bool = False

    @property
    def index(self) -> int:
        """The place in the run of the record in hand."""
        return int(self.admitted.index[self.row])

    def accepted_before(self, row: int) -> int:
        """How many rows were accepted before this one, and not counted yet; they are counted now."""
        before = row - len(self.admitted.turned_late) - len(self.admitted.failed)
        new, self.accepted = before - self.accepted, before
        return new

    def part(self) -> tuple[InHand, Input]:
        """Keep the record in hand alone; returns what comes before it, and the run behind it."""
        run, index = self.run, self.index
        before = InHand(run.cut(0, index), self.admitted.cut_before(self.row))
        self.run, self.admitted, self.row, self.accepted = (
            run.cut(index, index + 1),
            self.admitted.alone(self.row),
            0,
            0,
        )
        return before, run.cut(index + 1, len(run))


@dataclass(slots=True, frozen=True)
class WaitingRecord:
    """The record at its safe read, and the rest of its run."""

    loop: Coroutine[Any, Any, Any]
    read: SafeRead[Any]
    hand: InHand
    position: SafeReadPosition
    counts: dict[str, int]
