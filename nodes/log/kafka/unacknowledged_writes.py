"""Writes that the broker does not answer: while they time out, the node sends no heartbeats either.

Heartbeats have a client of their own, so they would go out while everything else waits; peers would take for alive a
node that can write nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

SILENT_AFTER_S = 1.0


class _Waiting:
    """Writes that are on their way; ``since_s``: the last answer, or the first write after all were answered."""

    __slots__ = ("count", "since_s")

    def __init__(self) -> None:
        self.count = 0
        self.since_s = 0.0

    def begins(self, now_s: float) -> None:
        if self.count == 0:
            self.since_s = now_s
        self.count += 1

    def ends(self, now_s: float) -> None:
        self.count -= 1
        self.since_s = now_s


class Unanswered:
    """Of all ordered writes, and of those to the topics without which nobody can take part in the job.

    Where some brokers answer and others do not, the node works on with those that do.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._all, self._essential = _Waiting(), _Waiting()
        self._topics: frozenset[str] = frozenset()

    def watch(self, topics: Collection[str]) -> None:
        """These are essential."""
        self._topics = frozenset(topics)

    def begins(self, topic: str) -> Callable[[], None]:
        """A write to this topic is on its way; the result is to be called with its answer."""
        now_s = self._clock_s()
        waiting = (self._all, self._essential) if topic in self._topics else (self._all,)
        for each in waiting:
            each.begins(now_s)

        def ended() -> None:
            now_s = self._clock_s()
            for each in waiting:
                each.ends(now_s)

        return ended

    @contextmanager
    def waits(self, topic: str) -> Iterator[None]:
        """For a write that waits for its answer."""
        ended = self.begins(topic)
        try:
            yield
        finally:
            ended()

    def then(self, topic: str, done: Callable[[int], None]) -> Callable[[int], None]:
        """For a write that does not wait: what is to be called with its answer instead of ``done``."""
        ended = self.begins(topic)

        def acknowledged(end: int) -> None:
            ended()
            done(end)

        return acknowledged

    @property
    def in_vain(self) -> bool:
        """Whether the node has waited for long, and nothing was answered meanwhile."""
        now_s = self._clock_s()
        return any(each.count and now_s - each.since_s >= SILENT_AFTER_S for each in (self._all, self._essential))
