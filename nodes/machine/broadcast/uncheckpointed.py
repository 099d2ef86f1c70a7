"""How much has been broadcast that no checkpoint covers: what every node has to keep until one does.

Two rules for this file. Only deltas that may still be needed are counted, so that a long history counts for nothing. A
partition that waits because of the limit continues with its next checkpoint.

While the checkpoint store is away no window can be forgotten, and all nodes hold the windows of all partitions, of
shards those of theirs. The bytes of deltas and contributions bound by how much that may grow.
"""

from __future__ import annotations

from nodes.machine.ownership.ownership import Ownership
from wcrdt.replica.replica import SlotDelta


class Uncheckpointed:
    """Bytes by partition and in all, as this node has read them. ``limit_bytes`` 0: none."""

    def __init__(self, ownership: Ownership, limit_bytes: int) -> None:
        self.ownership = ownership
        self.limit_bytes = limit_bytes
        self.total_bytes = 0
        self._bytes = [0] * ownership.partitions
        self._pieces = [0] * ownership.partitions

    @property
    def over(self) -> bool:
        """True if no more is to be made of what is not covered already."""
        return 0 < self.limit_bytes < self.total_bytes

    def piece(self, partition: int, size: int) -> None:
        """A piece of a delta was read."""
        self._pieces[partition] += size

    def delta(self, delta: SlotDelta, size: int) -> None:
        """A delta was read, in one record or in pieces; ``size`` of its last record."""
        size += self._pieces[delta.partition]
        self._pieces[delta.partition] = 0
        self._count(delta, size)

    def contribution(self, delta: SlotDelta, size: int) -> None:
        """A contribution to the shard of a partition that is processed here was read."""
        self._count(delta, size)

    def _count(self, delta: SlotDelta, size: int) -> None:
        partition = delta.partition
        saved = self.ownership.checkpoint(partition)
        position = None if saved is None else saved.record_position
        if delta.record is not None and (position is None or delta.record.to > position):
            self._bytes[partition] += size
            self.total_bytes += size

    def recorded(self, partition: int) -> None:
        """A checkpoint of the partition is on the control topic."""
        self.total_bytes -= self._bytes[partition]
        self._bytes[partition] = 0
