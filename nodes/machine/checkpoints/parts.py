"""The checkpoints of one partition: whole ones, and parts that hold what has changed since earlier ones.

Two rules for this file. A file that others may rest on has as many copies as there are checkpoints to fall back to:
then the loss of any two files does no harm. A state that is small, or that changes as a whole, has no parts.

Part n goes back to part n - 2^j, the largest power of two that divides n (0: the whole one). So a checkpoint is few
files, and a change is written again only as often as the number of parts doubles.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holon.tracks.parts import Part
from holon.tracks.snapshot import Snapshot
from holon.tracks.task import PartitionTask
from nodes.machine.config import PartsConfig
from nodes.machine.durable import KEPT_CHECKPOINTS


@dataclass(frozen=True, slots=True)
class Begun:
    """A checkpoint: a snapshot of now, or a part. ``copies`` of its file are needed."""

    of: Snapshot | Part
    copies: int = 1
    rests_on: list[str] = field(default_factory=list)
    collects: bool = False
    leaf: bool = False
    """Only the changes since the last checkpoint are in it."""

    @property
    def snapshot(self) -> Snapshot:
        """Where it is, and what it has beside windows."""
        return self.of.snapshot if isinstance(self.of, Part) else self.of


class CheckpointParts:
    """Decides what the next checkpoint of a partition is."""

    def __init__(self, config: PartsConfig) -> None:
        self._config = config
        self._size = 0  # of the last whole checkpoint
        self._parts_size = 0
        self._wholes = 0  # that come before parts are tried again
        self._number = 0
        self._below: list[str] = []  # what the next part may rest on

    def restored(self, size: int) -> None:
        """The partition begins with a checkpoint of so many bytes."""
        self._size = size

    def stop(self, task: PartitionTask) -> None:
        """The partition is another node's."""
        self._below = []
        task.stop_collecting()

    def begin(self, task: PartitionTask) -> Begun:
        """The checkpoint of now; the task's deltas have been taken. Raises as ``PartitionTask.snapshot``."""
        if self._below and self._may_go_on():
            self._number += 1
            joined = (self._number & -self._number).bit_length() - 1
            below = self._below[: len(self._below) - joined]
            copies = KEPT_CHECKPOINTS if joined else 1  # the next part joins one of a single block, and rests below it
            return Begun(task.part(below, joined), copies, below, leaf=not joined)
        self.stop(task)
        snapshot = task.snapshot()
        self._wholes -= self._wholes > 0
        if self._size <= self._config.above_bytes or self._wholes:
            return Begun(snapshot)
        task.collect()
        return Begun(snapshot, KEPT_CHECKPOINTS, collects=True)

    def _may_go_on(self) -> bool:
        config = self._config
        return self._number < config.most and self._parts_size < config.most_times * self._size

    def encoded(self, begun: Begun, snapshot: Snapshot) -> bytes:
        """The checkpoint's bytes, with what has been added to its snapshot."""
        if isinstance(begun.of, Part):
            data = Part(begun.of.head, snapshot).to_bytes()
            self._parts_size += len(data)
            if begun.leaf and len(data) > self._config.most_share * self._size:
                self._wholes = self._config.pause + 1
        else:
            data = snapshot.to_bytes()
            self._size = len(data)
        return data

    def stored(self, begun: Begun, name: str, task: PartitionTask) -> None:
        """It is durable under this name."""
        if self._wholes or not (begun.rests_on or begun.collects) or self._size <= self._config.above_bytes:
            self.stop(task)
            return
        self._below = [*begun.rests_on, name]
        if begun.collects:
            self._number = self._parts_size = 0
