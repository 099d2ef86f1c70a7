"""A node's position in the control topic: when it is read on, and whether a read queries the log for the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes.log.contract import Log, TopicPartition

BATCH = 1000
INTERVAL_MS = 20


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """A read. ``at_end``: only records written since can follow; ``end_queried``: the log has confirmed that."""

    values: Sequence[bytes]
    at_end: bool
    end_queried: bool
    next_offset: int


class ControlReader:
    """Of one node. ``position``: so far it has read. It reads every ``INTERVAL_MS``, and when records have arrived."""

    def __init__(self, log: Log, topic: str, position: int = 0) -> None:
        self.where = TopicPartition(topic, 0)
        self.position = position
        self._log = log
        self._last_read_ms: int | None = None

    def read(self, now_ms: int, needs_end: Callable[[], bool], *, wanted: bool) -> ControlRecords | None:
        """The next records, perhaps none; None: no read is due, and no records have arrived.

        ``needs_end``: whether the node has to know that nothing more is there; ``wanted``: read in any case.
        """
        due = self._last_read_ms is None or not 0 <= now_ms - self._last_read_ms < INTERVAL_MS
        if not due and not wanted:
            return None
        to_end = due and needs_end()
        read = self._log.read if to_end else self._log.poll
        chunk = read(*self.where, self.position, max_records=BATCH)
        if not chunk.values and not due:
            return None
        self.position = chunk.next_offset
        at_end = len(chunk.values) < BATCH
        if at_end:
            self._last_read_ms = now_ms
        return ControlRecords(chunk.values, at_end, to_end, chunk.next_offset)

    def reread_end(self) -> None:
        """The node needs the end since the last records: the next read is due, and queries it."""
        self._last_read_ms = None
