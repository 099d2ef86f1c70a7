"""Wrong tokens are answered slowly, however many connections try; right ones are never held back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

GAP_S = 0.1
MOST_S = 10.0


class FailedTokens:
    """Of one server; safe to use from several threads.

    Answers to wrong tokens leave one after the other, ``GAP_S`` apart. None waits for more than ``MOST_S``, so that the
    limit of connections bounds the tries of a flood.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._next_s = clock_s()
        self._lock = threading.Lock()

    def wait_s(self) -> float:
        """How long the answer to a wrong token that has come now is held back."""
        with self._lock:
            now_s = self._clock_s()
            self._next_s = min(max(self._next_s, now_s) + GAP_S, now_s + MOST_S)
            return self._next_s - now_s
