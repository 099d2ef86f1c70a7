"""How far an idle partition may be taken: the bound of its punctuation.

Two rules for this file: what one node judges here binds nobody, since only the punctuation on the log counts
(``design.md`` section 4); partitions that are idle themselves hold nobody back.

Deviation from ``design.md`` section 4 ("no higher than the frontier of the others"): with that bound two partitions
without records hold each other, and with them every window, for ever. Lateness is judged by a partition's own
watermark, so going further than an idle neighbour costs nobody a record.
"""

from __future__ import annotations

from wcrdt.replica import Replica
from wcrdt.windows import BEFORE_TIME_MS, END_OF_TIME_MS


class Idleness:
    """What this node has seen the partitions do, on its own clock."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._seen: dict[int, tuple[int, int]] = {}  # partition -> next input offset, since when

    def bound_ms(self, partition: int, now_ms: int, timeout_ms: int) -> int:
        """The least watermark of the other partitions that had records lately; if there is none, the largest.

        Partitions whose input has ended do not count: their watermark is no time.
        """
        self._look(now_ms)
        slots = self.replica.slots
        others = [p for p, slot in enumerate(slots) if p != partition and slot.record.watermark_ms < END_OF_TIME_MS]
        active = [slots[p].record.watermark_ms for p in others if now_ms - self._seen[p][1] < timeout_ms]
        if active:
            return min(active)
        return max((slots[p].record.watermark_ms for p in others), default=BEFORE_TIME_MS)

    def _look(self, now_ms: int) -> None:
        for partition, slot in enumerate(self.replica.slots):
            offset = slot.record.position[0]
            if partition not in self._seen or self._seen[partition][0] != offset:
                self._seen[partition] = (offset, now_ms)
