"""The lives of a node process: where a writer of the log has lost its place, the next one goes on from a checkpoint.

Two rules for this file: a request to stop holds for all lives; what ends a life again and again ends the process, whose
parent waits longer.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Protocol, TypeVar

from nodes.log import Log, LogInterrupted

T = TypeVar("T")
logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LIVES_A_MINUTE = 6
MINUTE_S = 60.0


class Stoppable(Protocol):
    """A node in its process."""

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Leave in order; a second time at once."""
        ...


class StopSignals:
    """SIGTERM and SIGINT, for whichever life there is; before the first they do what they always do."""

    def __init__(self) -> None:
        self.asked = False
        self._node: Stoppable | None = None

    def concern(self, node: Stoppable) -> None:
        """This is the one that lives now."""
        self._node = node
        for number in SIGNALS:
            signal.signal(number, self._note)

    def ignore(self) -> None:
        """The process is leaving already."""
        if self._node is not None:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._node is not None:
            self._node.request_stop(signum, frame)


def live(
    opened: Callable[[], AbstractContextManager[Log]],
    one_life: Callable[[Log, StopSignals], T],
    clock_s: Callable[[], float] = time.monotonic,
) -> T:
    """One life after the other, each on a log that was opened for it. Raises what ends the last of them."""
    stops, ended_s = StopSignals(), list[float]()
    try:
        while True:
            try:
                with opened() as log:
                    ended = one_life(log, stops)
                    stops.ignore()
                    return ended
            except LogInterrupted as error:
                now_s = clock_s()
                ended_s = [*(at_s for at_s in ended_s if now_s - at_s < MINUTE_S), now_s]
                if stops.asked or len(ended_s) >= LIVES_A_MINUTE:
                    raise
                logger.warning("%s; going on from the last checkpoint with the log opened again", error)
    finally:
        stops.ignore()
