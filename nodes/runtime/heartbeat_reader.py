"""Where a node listens for signs of life: the partition that all read and, in a large fleet, that of its group."""

from __future__ import annotations

from nodes.jobs import HEARTBEAT_RETENTION_MS, Topics
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine.beats import GROUPS

BATCH = 1000


class Hearing:
    """Reads signs of life from now on: what was said before this node's life is none now."""

    def __init__(self, log: Log, topics: Topics) -> None:
        self._log = log
        self._topics = topics
        self._at: dict[tuple[str, int], int] = {}
        self._made = False

    def place(self, group: int | None) -> tuple[str, int]:
        """Topic and partition of a group's signs of life (None: those for all). Makes the topic if it has to be."""
        if group is None:
            return self._topics.heartbeats, 0
        if not self._made:
            self._made = True
            self._log.create_topic(self._topics.group_heartbeats, GROUPS, retention_ms=HEARTBEAT_RETENTION_MS)
        return self._topics.group_heartbeats, group

    def read(self, group: int | None) -> tuple[list[bytes], bool]:
        """What is new, and whether there is more."""
        found: list[bytes] = []
        more = False
        for where in [self.place(None)] if group is None else [self.place(None), self.place(group)]:
            if where not in self._at:
                self._at[where] = self._log.end_offset(*where)
            try:
                chunk = self._log.follow(*where, self._at[where], max_records=BATCH)
            except OffsetOutOfRange:  # retention has passed a node that was stalled
                self._at[where] = self._log.start_offset(*where)
                more = True
                continue
            self._at[where] = chunk.next_offset
            found += chunk.values
        return found, more
