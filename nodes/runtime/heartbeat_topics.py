"""The heartbeats of a node on the log: the partition that all read and, in a large fleet, that of its group."""

from __future__ import annotations

from functools import partial

from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.membership.heartbeats import GROUPS

BATCH = 1000
DEAF_AFTER_MS = 1000
"""A read that takes so long is more than a slow broker's: then no other node is to rely on this one."""
HEARTBEAT_RETENTION_MS = 60_000


def deaf_after_ms(failure_timeout_ms: int) -> int:
    """How long a node waits in vain for what is on the log until no other node is to believe that it works."""
    return max(2 * failure_timeout_ms, DEAF_AFTER_MS)


class HeartbeatTopics:
    """Sends one node's heartbeats, and reads those of all from its first read on: earlier ones are none now.

    A node is deaf once it has read nothing for ``deaf_after_ms`` although acknowledged heartbeats of its own are there
    to be read. Its writes arrive, and those of others do not reach it. So it sends no heartbeat until a read returns
    something, but in its place a record that counts for no node. Else nodes would be silent for ever once a broker has
    lost acknowledged heartbeats. ``group_topic``: where the groups of a large fleet have theirs; None: there are none.
    """

    def __init__(
        self, log: Log, node: str, topic: str, group_topic: str | None = None, *, failure_timeout_ms: int
    ) -> None:
        self._log = log
        self._uncounted = m.encode(m.Heartbeat(m.UNCOUNTED_INCARNATION, node, 0))
        self._topic = topic
        self._group_topic = group_topic
        self._deaf_after_ms = deaf_after_ms(failure_timeout_ms)
        self._at: dict[tuple[str, int], int] = {}
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._unread_since_ms: int | None = None
        self._made = False

    def send(self, value: bytes, group: int | None, now_ms: int) -> None:
        """Send a heartbeat to the common partition, or to that of the group; of a deaf node one that counts not."""
        where = self._place(group)
        sent = self._uncounted if self.is_deaf(now_ms) else value
        self._log.send(*where, [sent], done=partial(self._acknowledge, where))

    def read(self, group: int | None, now_ms: int) -> tuple[list[bytes], bool]:
        """The new heartbeats, and whether there are more."""
        found: list[bytes] = []
        more = is_behind = has_moved = False
        for where in [self._place(None)] if group is None else [self._place(None), self._place(group)]:
            if where not in self._at:
                self._at[where] = self._log.end_offset(*where)
            at = self._at[where]
            try:
                chunk = self._log.poll(*where, at, max_records=BATCH)
            except OffsetOutOfRange:  # retention has passed a node that was stalled
                self._at[where] = self._log.start_offset(*where)
                more = has_moved = True
                continue
            self._at[where] = chunk.next_offset
            has_moved |= chunk.next_offset > at
            is_behind |= chunk.next_offset < self._acknowledged.get(where, 0)
            found += chunk.values
        if has_moved or not is_behind:
            self._unread_since_ms = None
        elif self._unread_since_ms is None:
            self._unread_since_ms = now_ms
        return found, more

    def is_deaf(self, now_ms: int) -> bool:
        """Whether reads have found nothing for so long, where something is."""
        return self._unread_since_ms is not None and now_ms - self._unread_since_ms >= self._deaf_after_ms

    def _place(self, group: int | None) -> tuple[str, int]:
        """Topic and partition of a group's heartbeats (None: those for all). Makes the topic if it has to be."""
        if group is None:
            return self._topic, 0
        assert self._group_topic is not None, "a job without groups"
        if not self._made:
            self._made = True
            self._log.create_topic(self._group_topic, GROUPS, retention_ms=HEARTBEAT_RETENTION_MS)
        return self._group_topic, group

    def _acknowledge(self, where: tuple[str, int], end: int) -> None:
        self._acknowledged[where] = end
