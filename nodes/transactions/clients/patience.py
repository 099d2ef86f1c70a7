"""An operator's command that waits for the log: for room on a full disk, or a topic that cannot be enlarged yet.

Nothing is requested meanwhile. A refused append leaves nothing, so it is made again until there is room.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from nodes.log.contract import AddressSpaceFull, Log, LogError, LogFull
from nodes.machine import messages as m
from nodes.transactions.topics import TransactionTopics

COMMAND = "command"
"""In place of a node's name."""
_AGAIN_S = 1.0
"""Between two attempts."""
T = TypeVar("T")


class Patience:
    """``left_s``: so long it waits in all. ``tell``: is called with what it waits for, once while that is the same.

    ``sleep``: seconds, between two attempts.
    """

    def __init__(
        self,
        left_s: float = 0.0,
        tell: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.left_s = left_s
        self._tell = tell
        self._sleep = sleep
        self._told = ""

    def wait(self, what: str, error: LogError) -> None:
        """A moment, for this. Raises the error at the end of all patience, or where no time helps."""
        if self.left_s <= 0 or isinstance(error, AddressSpaceFull):
            raise error
        if what != self._told:
            self._tell(f"waits for {what}")
            self._told = what
        moment_s = min(_AGAIN_S, self.left_s)
        self._sleep(moment_s)
        self.left_s -= moment_s

    def with_room(self, attempt: Callable[[], T]) -> tuple[T, bool]:
        """The result of the attempt once the log has room for it, and whether it was waited for."""
        waited = False
        while True:
            try:
                return attempt(), waited
            except LogFull as error:
                self.wait(f"room on the log, and nothing is requested until then: {error}", error)
                waited = True

    def append(self, log: Log, topic: str, record: bytes) -> bool:
        """To the topic's first partition. Whether it was waited for room."""
        return self.with_room(lambda: log.append(topic, 0, [record]))[1]

    def awaited_heartbeats(self, log: Log, topics: TransactionTopics) -> bool:
        """Whether heartbeats found no room: nodes that wait for room send none.

        One that does not count shows that, and changes nothing.
        """
        if self.left_s <= 0:
            return False
        uncounted = m.Heartbeat(m.UNCOUNTED_INCARNATION, COMMAND, 0)
        return self.append(log, topics.heartbeats, m.encode(uncounted))
