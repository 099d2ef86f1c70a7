"""Signs of life of a transactional job, as one node reads them."""

from __future__ import annotations

from nodes.log.contract import Log, OffsetOutOfRange
from nodes.transactions.topics import TransactionTopics


class Heartbeats:
    """From this node's start on: what was said before is no sign of life now."""

    def __init__(self, log: Log, topics: TransactionTopics) -> None:
        self._log = log
        self._topic = topics.heartbeats
        self._at = log.end_offset(self._topic, 0)

    def read(self) -> list[bytes]:
        """New ones. Old ones are deleted after a while, perhaps under a node that stood still."""
        try:
            chunk = self._log.follow(self._topic, 0, self._at)
        except OffsetOutOfRange:
            self._at = self._log.start_offset(self._topic, 0)
            return []
        self._at = chunk.next_offset
        return list(chunk.values)
