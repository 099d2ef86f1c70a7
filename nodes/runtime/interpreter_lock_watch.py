"""Calls that never give the interpreter's lock back: the system ends the process, since no thread of it could.

A timer of the process's CPU time is wound again and again by a thread that needs the lock for it. When it runs out,
``faulthandler`` writes the stack, without the lock, and the signal ends the process. Pauses are no CPU time.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys

logger = logging.getLogger(__name__)

SIGNAL = signal.SIGPROF
SHORTEST_S = 1.0
"""Libraries that a node uses hold the lock for a while too, as when they decode a large checkpoint."""


class LockWatch:
    """``begin`` in the main thread, then ``wind`` from another one, at least once in ``limit_ms`` of CPU time."""

    def __init__(self, limit_ms: int) -> None:
        self.limit_s = max(limit_ms / 1000, SHORTEST_S)

        self._wound = False

    def begin(self) -> None:
        """Show the stack when the timer runs out. Without a standard error to write to, there is nothing to show.

        There is one such timer: a profiler that has it keeps it, and such calls are not ended meanwhile.
        """
        self._wound = not callable(signal.getsignal(SIGNAL))
        if not self._wound:
            logger.warning("SIGPROF belongs to a profiler: calls that keep the interpreter's lock are not ended")
            return
        faulthandler.unregister(SIGNAL)
        signal.signal(SIGNAL, signal.SIG_DFL)
        if sys.stderr is not None and not sys.stderr.closed:
            faulthandler.register(SIGNAL, all_threads=False, chain=True)

    def wind(self) -> None:
        """The lock has been given back."""
        if self._wound:
            signal.setitimer(signal.ITIMER_PROF, self.limit_s)

    def stop(self) -> None:
        """The timer is not wound any more."""
        if self._wound:
            signal.setitimer(signal.ITIMER_PROF, 0)
