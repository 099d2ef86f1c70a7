"""Functions that never return: a time-out in CPU time of the node's loop, so that pauses of a machine do not count."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

from transactional.execution.interrupting import function_of, step_of

logger = logging.getLogger(__name__)

SIGNAL = signal.SIGUSR2


class FunctionWatch:
    """``begin`` in the main thread, which runs the functions; then ``check`` from another one, again and again.

    Only the handler of the signal interrupts. It runs on the stack of the function, and only if that is still the same.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000
        self._main = 0
        self._cpu_s: Callable[[], float] = time.thread_time
        self._seen: FrameType | None = None
        self._since_s = 0.0
        self._too_long: FrameType | None = None
        self._is_named = False

    def begin(self) -> None:
        """Watch the calling thread, which is the main one."""
        self._main = threading.get_ident()
        clock = time.pthread_getcpuclockid(self._main)
        self._cpu_s = lambda: time.clock_gettime(clock)
        signal.signal(SIGNAL, self._interrupt)

    def check(self) -> bool:
        """Whether a function runs that still may; one that runs too long is interrupted, or named if it cannot be."""
        stack = sys._current_frames().get(self._main)
        function, now_s = function_of(stack), self._cpu_s()
        if function is None or function is not self._seen:
            self._seen, self._since_s, self._too_long, self._is_named = function, now_s, None, False
            return function is not None
        spent_s = now_s - self._since_s
        if spent_s < self._timeout_s:
            return True
        self._too_long = function
        signal.pthread_kill(self._main, SIGNAL)
        if spent_s < 2 * self._timeout_s:
            return True
        if not self._is_named:
            self._is_named = True
            text = "".join(traceback.format_stack(stack))
            logger.error("a function cannot be interrupted (it catches everything, or runs native code):\n%s", text)
        return False

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        step = step_of(frame)
        if step is not None and step.frame is self._too_long:
            step.interrupt()
