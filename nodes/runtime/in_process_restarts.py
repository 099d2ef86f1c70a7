"""Restarts of a node within its process: after a log's writer has lost its place it goes on from a checkpoint.

Two rules for this file: a request to stop holds for all restarts; an error that returns again and again ends the
process, whose parent waits longer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from nodes.log import Log, LogInterrupted
from nodes.runtime.stop_signals import StopSignals

T = TypeVar("T")
logger = logging.getLogger(__name__)

RESTARTS_A_MINUTE = 6
MINUTE_S = 60.0


def live(
    opened: Callable[[], AbstractContextManager[Log]],
    run_once: Callable[[Log, StopSignals], T],
    clock_s: Callable[[], float] = time.monotonic,
    stops: StopSignals | None = None,
) -> T:
    """One run after the other, each on a log that was opened for it. Raises the error that ends the last of them.

    Raises ``StoppedEarly`` if a signal came before the first.
    """
    stops, ended_s = StopSignals() if stops is None else stops, list[float]()
    stops.leave_early()
    try:
        while True:
            try:
                with opened() as log:
                    stops.leave_early()
                    ended = run_once(log, stops)
                    stops.ignore()
                    return ended
            except LogInterrupted as error:
                now_s = clock_s()
                ended_s = [*(at_s for at_s in ended_s if now_s - at_s < MINUTE_S), now_s]
                if stops.stop_requested or len(ended_s) >= RESTARTS_A_MINUTE:
                    raise
                logger.warning("%s; going on from the last checkpoint with the log opened again", error)
    finally:
        stops.ignore()
