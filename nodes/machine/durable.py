"""The positions that the checkpoints of all partitions together make durable."""

from __future__ import annotations

from collections.abc import Sequence

from nodes.checkpoints.errors import BadCheckpointName
from nodes.checkpoints.file_names import is_name_of, parse_name
from nodes.machine import messages as m
from nodes.machine.control_state import ControlledPartition
from wcrdt.replica.slots import WINDOW_START, Position
from wcrdt.windows.assigners import BEFORE_TIME_MS

KEPT_CHECKPOINTS = 3
"""Checkpoints of a partition that are known: the newest and what to fall back to."""
KEPT_MERGED = 3
"""Merged checkpoints that are known here; the log keeps what the oldest of them needs."""


class Durable:
    """Remembers what was computed, until ``forget`` is called because a checkpoint was saved."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Position, int]] = {}

    def forget(self) -> None:
        """A checkpoint was saved."""
        self._found.clear()

    def at(self, partitions: Sequence[ControlledPartition], depth: int) -> tuple[Position, int]:
        """The least answered position and watermark (ms) of the partitions' ``depth``-th newest checkpoints."""
        assert 1 <= depth <= KEPT_CHECKPOINTS, f"depth {depth} of {KEPT_CHECKPOINTS} checkpoints kept"
        found = self._found.get(depth)
        if found is None:
            if all(len(state.checkpoints) >= depth for state in partitions):
                least = [state.checkpoints[-depth] for state in partitions]
                found = min(c.answered for c in least), min(c.watermark_ms for c in least)
            else:
                found = WINDOW_START, BEFORE_TIME_MS
            self._found[depth] = found
        return found


def reaches(new: m.CheckpointSaved, old: m.CheckpointSaved) -> bool:
    """True if ``new`` is behind ``old`` in nothing, so that what is durable only ever grows."""
    return (
        new.record_position >= old.record_position
        and new.answered >= old.answered
        and new.watermark_ms >= old.watermark_ms
        and new.done >= old.done
    )


def rests_on(saved: m.CheckpointSaved) -> tuple[str, ...]:
    """The names of the checkpoints that this one depends on; none of a whole one."""
    return saved.rests_on if isinstance(saved, m.PartSaved) else ()


def is_named(saved: m.CheckpointSaved) -> bool:
    """Whether the names in it are those that a store gives: its own, and what is below it in the same folder."""
    if not is_name_of(saved.name, saved.incarnation, saved.partition, saved.record_position, saved.answered):
        return False
    key = parse_name(saved.name).key
    try:
        below = [parse_name(name).key for name in rests_on(saved)]
    except BadCheckpointName:
        return False
    return all(each[:3] == key[:3] and each[3] <= key[3] and each[4] <= key[4] for each in below)
