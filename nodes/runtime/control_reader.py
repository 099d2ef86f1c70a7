"""A node's place in the control topic: when it is read on, and whether the log is asked how far it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes.log.contract import Log, TopicPartition

BATCH = 1000
INTERVAL_MS = 20


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """A read. ``at_end``: it may go on behind them only by what was written since; ``asked``: the log has said so."""

    values: Sequence[bytes]
    at_end: bool
    asked: bool
    next_offset: int


class ControlReader:
    """Of one node. ``position``: so far it has read. It looks every ``INTERVAL_MS``, and where something is there."""

    def __init__(self, log: Log, topic: str, position: int = 0) -> None:
        self.where = TopicPartition(topic, 0)
        self.position = position
        self._log = log
        self._looked_ms: int | None = None

    def read(self, now_ms: int, needs_end: Callable[[], bool], *, wanted: bool) -> ControlRecords | None:
        """The next records, perhaps none; None: it is too early to look, and nothing is there.

        ``needs_end``: whether the node has to know that nothing more is there; ``wanted``: look in any case.
        """
        due = self._looked_ms is None or not 0 <= now_ms - self._looked_ms < INTERVAL_MS
        if not due and not wanted:
            return None
        asked = due and needs_end()
        read = self._log.read if asked else self._log.poll
        chunk = read(*self.where, self.position, max_records=BATCH)
        if not chunk.values and not due:
            return None
        self.position = chunk.next_offset
        at_end = len(chunk.values) < BATCH
        if at_end:
            self._looked_ms = now_ms
        return ControlRecords(chunk.values, at_end, asked, chunk.next_offset)

    def look_again(self) -> None:
        """The end matters since what was read: the next read is due, and asks for it."""
        self._looked_ms = None
