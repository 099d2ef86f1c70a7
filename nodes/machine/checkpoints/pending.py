"""A checkpoint between its snapshot and the record that announces it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holon.tracks.snapshot import Snapshot
from nodes.machine import messages as m
from nodes.machine.checkpoints.parts import Begun


@dataclass(slots=True)
class Pending:
    """A snapshot that waits until all that comes before it is acknowledged."""

    begun: Begun
    snapshot: Snapshot
    ticket: int
    done: bool
    watermark_ms: int
    handover: bool
    sent: bool = False

    def record(
        self, incarnation: int, node: str, version: int, name: str, late_states: Sequence[str]
    ) -> m.CheckpointSaved:
        """The announcement of what is stored under this name."""
        snapshot = self.snapshot
        saved = m.CheckpointSaved(
            incarnation,
            node,
            snapshot.partition,
            version,
            name,
            snapshot.record.slot.to[0],
            self.watermark_ms,
            *snapshot.window.position,
            self.done,
            snapshot.record.slot.to[1],
            snapshot.counts.numbers(late_states),
        )
        below = self.begun.rests_on
        return m.PartSaved(**msgspec.structs.asdict(saved), rests_on=tuple(below)) if below else saved
