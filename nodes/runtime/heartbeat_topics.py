"""Where a node listens for heartbeats: the partition that all read and, in a large fleet, that of its group."""

from __future__ import annotations

from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine.membership.heartbeats import GROUPS

BATCH = 1000
HEARTBEAT_RETENTION_MS = 60_000


class HeartbeatReader:
    """Reads heartbeats from its first read on: earlier ones are none now.

    ``group_topic``: where the groups of a large fleet have theirs; None: this kind of job has no groups.
    """

    def __init__(self, log: Log, topic: str, group_topic: str | None = None) -> None:
        self._log = log
        self._topic = topic
        self._group_topic = group_topic
        self._at: dict[tuple[str, int], int] = {}
        self._made = False

    def place(self, group: int | None) -> tuple[str, int]:
        """Topic and partition of a group's heartbeats (None: those for all). Makes the topic if it has to be."""
        if group is None:
            return self._topic, 0
        assert self._group_topic is not None, "a job without groups"
        if not self._made:
            self._made = True
            self._log.create_topic(self._group_topic, GROUPS, retention_ms=HEARTBEAT_RETENTION_MS)
        return self._group_topic, group

    def read(self, group: int | None = None) -> tuple[list[bytes], bool]:
        """The new heartbeats, and whether there are more."""
        found: list[bytes] = []
        more = False
        for where in [self.place(None)] if group is None else [self.place(None), self.place(group)]:
            if where not in self._at:
                self._at[where] = self._log.end_offset(*where)
            try:
                chunk = self._log.poll(*where, self._at[where], max_records=BATCH)
            except OffsetOutOfRange:  # retention has passed a node that was stalled
                self._at[where] = self._log.start_offset(*where)
                more = True
                continue
            self._at[where] = chunk.next_offset
            found += chunk.values
        return found, more
