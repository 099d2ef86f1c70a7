"""Partitions of which nothing arrives although the log has more: found by requesting the ends of those without news.

Whatever the cause, such a partition must not stay unread in silence. Two rules for this file. A partition is stalled
only where two ends in a row, a timeout apart, lie beyond the same position. Nothing here waits for a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from nodes.log.contract import Stalls, TopicPartition
from nodes.log.kafka.columns import Tail
from nodes.log.kafka.topics import EndsRequest

logger = logging.getLogger(__name__)

STALL_TIMEOUT_S = 10.0
ENDS_BEYOND = 2
"""So many ends in a row lie beyond the position of a stalled partition: the first may be of a record on its way."""
_CHECKS = 4
"""In each timeout."""
_LONGEST_STEP_S = 1.0
_MOST_DOUBLINGS = 6


@dataclass(slots=True)
class _Silence:
    """Of a partition at a position. Times are those of the watch: ``next_s`` is that of the next request."""

    position: int
    since_s: float
    next_s: float
    requested: bool = False
    beyond: int = 0
    restarts: int = 0


class StallWatch(Stalls):
    """Of the partitions of one log; ``timeout_s`` 0: none is watched. ``count``: how often one was stalled.

    Its time is that of a reader that takes what arrives: a pause of the process counts as one short step.
    """

    def __init__(self, request_ends: Callable[[Iterable[TopicPartition]], EndsRequest], timeout_s: float) -> None:
        self.count = 0
        self._request_ends = request_ends
        self._timeout_s = timeout_s
        self._longest_s = min(_LONGEST_STEP_S, timeout_s / _CHECKS)
        self._silences: dict[TopicPartition, _Silence] = {}
        self._request: EndsRequest | None = None
        self._time_s = 0.0
        self._due_s = 0.0 if timeout_s > 0 else float("inf")
        self._stepped_s = self._checked_s = float("-inf")

    def is_behind(self, topic: str, partition: int) -> bool:
        known = self._silences.get(TopicPartition(topic, partition))
        return known is not None and (known.beyond > 0 or known.restarts > 0)

    def is_due(self, now_s: float) -> bool:
        """Whether to ``check``; called whenever the reader has taken what has arrived."""
        step_s, self._stepped_s = now_s - self._stepped_s, now_s
        self._time_s += step_s if step_s < self._longest_s else self._longest_s
        return self._time_s >= self._due_s

    def check(self, now_s: float, tails: Collection[Tail], held_s: Callable[[Tail], float]) -> list[Tail]:
        """The stalled ones of the partitions that are read on, whose reading is to begin anew at ``fetched``.

        ``held_s``: when records of a partition last had to wait for a quota, or for those of others.
        """
        self._due_s = self._time_s + self._timeout_s / _CHECKS
        before_s, self._checked_s = self._checked_s, now_s
        self._silences = {tail.where: self._silence(tail, held_s(tail) >= before_s) for tail in tails}
        ends = None if self._request is None else self._request.found()
        if ends is not None:
            self._request = None
        stalled = [tail for tail in tails if ends is not None and self._is_stalled(tail, ends.get(tail.where))]
        self._request_more()
        return stalled

    def _silence(self, tail: Tail, held: bool) -> _Silence:
        known = self._silences.get(tail.where)
        if known is not None and known.position == tail.fetched and not held:
            return known
        restarts = 0
        if known is not None and known.restarts:
            restarts = known.restarts if known.position == tail.fetched else 0
            if not restarts:
                logger.info("topic %r partition %d is read again: its position is %d", *tail.where, tail.fetched)
        return _Silence(tail.fetched, self._time_s, self._next_s(restarts), restarts=restarts)

    def _next_s(self, restarts: int) -> float:
        """Doubled with each restart that has not helped: reading from there may take so long."""
        return self._time_s + self._timeout_s * 2 ** min(restarts, _MOST_DOUBLINGS)

    def _is_stalled(self, tail: Tail, end: int | None) -> bool:
        one = self._silences[tail.where]
        if not one.requested:
            return False
        one.requested = False
        one.beyond = one.beyond + 1 if end is not None and end > one.position else 0
        if one.beyond < ENDS_BEYOND:
            return False
        self.count += 1
        silent_s, one.restarts, one.beyond = self._time_s - one.since_s, one.restarts + 1, 0
        one.next_s = self._next_s(one.restarts)
        logger.warning(
            "topic %r partition %d is stalled: nothing has arrived for %.0f s at offset %d, although its log ends at "
            "%s. Its reading begins anew there (attempt %d)", *tail.where, silent_s, one.position, end, one.restarts,
        )  # fmt: skip
        return True

    def _request_more(self) -> None:
        due = [where for where, one in self._silences.items() if one.next_s <= self._time_s]
        if self._request is not None or not due:
            return
        for where in due:
            one = self._silences[where]
            one.requested, one.next_s = True, self._next_s(one.restarts)
        self._request = self._request_ends(due)
