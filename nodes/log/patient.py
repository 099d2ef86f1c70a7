"""A node's log whose appends wait while the disk is full, until there is room or the node is to leave.

Two rules for this file. An append is repeated only if nothing of it is on the log, and nothing else is appended before
it. A wait is logged once, with what it waits for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeVar

from nodes.log.contract import AddressSpaceFull, Appended, Log, LogFull

logger = logging.getLogger(__name__)

PAUSES_S = (0.05, 0.1, 0.2)
"""The last one is used again and again: so long at most a node's metrics wait for its thread."""
T = TypeVar("T")


class WaitForRoom(NamedTuple):
    """An append that waits. ``since_s``: by the clock of its log; ``reason``: as ``LogFull`` has it."""

    topic: str
    partition: int
    since_s: float
    reason: str


class PatientLog:
    """Another log, for the thread of a node's loop. All but appends is the other log's own.

    ``leaves``: the node is to leave, so ``LogFull`` is raised. An address space that is used up is raised at once,
    since no time makes it larger. Logs of brokers never raise ``LogFull``.
    """

    def __init__(
        self,
        log: Log,
        node: str,
        leaves: Callable[[], bool],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.waiting: WaitForRoom | None = None
        self.while_waiting: Callable[[], None] = lambda: None
        """Called before each new try, by the thread that waits."""
        self._log = log
        self._node = node
        self._leaves = leaves
        self._sleep = sleep
        self._clock_s = clock_s
        # Called in each turn, where ``__getattr__`` would cost ten times as much.
        self.read, self.poll, self.wait, self.poll_acks = log.read, log.poll, log.wait, log.poll_acks

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        """As ``Log.append``."""
        try:
            return self._log.append(topic, partition, values, **more)
        except LogFull as error:
            return self._wait(topic, partition, partial(self._log.append, topic, partition, values, **more), error)

    def send(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> None:
        """As ``Log.send``."""
        try:
            self._log.send(topic, partition, values, **more)
        except LogFull as error:
            self._wait(topic, partition, partial(self._log.send, topic, partition, values, **more), error)

    def _wait(self, topic: str, partition: int, append: Callable[[], T], error: LogFull) -> T:
        if isinstance(error, AddressSpaceFull):
            raise error
        began_s = self._clock_s()
        self.waiting = WaitForRoom(topic, partition, began_s, str(error))
        logger.warning("node %s waits until there is room on the log, and nothing is lost: %s", self._node, error)
        try:
            for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
                self.while_waiting()
                if self._leaves():
                    raise error
                self._sleep(pause_s)
                try:
                    found = append()
                except AddressSpaceFull:
                    raise
                except LogFull as full:
                    error = full
                    continue
                waited_s = self._clock_s() - began_s
                logger.warning("node %s goes on: there is room on the log again, after %.1f s", self._node, waited_s)
                return found
        finally:
            self.waiting = None
        raise AssertionError("pauses never end")
