"""Active standbys: a standby publishes at once where the claim holder was late; and what counts as late.

Two rules for this file. A standby becomes active only where a result was late by its patience. It holds results back
again as soon as another node is seen to keep pace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

SECOND_MS = 1000
REMEMBERED = 10
"""Seconds of which the lags are remembered."""
ODD = 2
"""So many seconds of these may have longer lags than what is usual: one bad moment must not hide a failure for long."""
MARGIN = 1.5
"""Lags somewhat longer than what is usual are no lateness."""
LONGEST = 30
"""The most that lags can make of the requested patience, as a multiple of it."""

REMEMBERED_PLACES = 1000


class ResultPace:
    """How long the others' results usually come after one's own: on a busy machine longer than on a quiet one."""

    def __init__(self) -> None:
        self._longest: deque[tuple[int, int]] = deque()  # second, longest lag in it

    def lag(self, lag_ms: int, now_ms: int) -> None:
        """Something made here was seen so much later."""
        second = now_ms // SECOND_MS
        while self._longest and self._longest[0][0] <= second - REMEMBERED:
            self._longest.popleft()
        if self._longest and self._longest[-1][0] == second:
            lag_ms = max(lag_ms, self._longest.pop()[1])
        self._longest.append((second, lag_ms))

    def patience_ms(self, requested_ms: int) -> int:
        """The time to wait before something is late: ``requested_ms``, or longer where that is usual."""
        longest = sorted((lag for _, lag in self._longest), reverse=True)
        usual = longest[min(ODD, len(longest) - 1)] if longest else 0
        return max(requested_ms, min(int(MARGIN * usual), LONGEST * requested_ms))


class ActiveStandby:
    """``window_ms``: a replica that is behind by less keeps pace. Times are the standby's running time."""

    def __init__(self, window_ms: int, pace: ResultPace) -> None:
        self.window_ms = window_ms
        self.pace = pace
        self.active = False
        self.measures_from_ms: int | None = None
        self._published: dict[Hashable, deque[tuple[Any, int]]] = {}

    def took(self, made_ms: int, now_ms: int) -> None:
        """Results made here then have been read; lags show nothing while there is a backlog of input."""
        if self.measures_from_ms is not None:
            self.pace.lag(now_ms - max(made_ms, self.measures_from_ms), now_ms)

    def take(self) -> None:
        """Publish at once from now on."""
        self.active = True

    def published(self, sequence: Hashable, place: Any, made_ms: int) -> None:
        """Everything of the sequence up to ``place`` is written, which was made then."""
        self._published.setdefault(sequence, deque(maxlen=REMEMBERED_PLACES)).append((place, made_ms))

    def last_of(self, sequence: Hashable, nothing: Any) -> Any:
        """Up to where this replica has written the sequence since it became active."""
        own = self._published.get(sequence)
        return own[-1][0] if own else nothing

    def other_at(self, sequence: Hashable, place: Any, now_ms: int) -> None:
        """Another node has written ``place``: this one is active no more if it made that within the window."""
        if not self.active:
            return
        own = self._published.get(sequence)
        if own:
            while len(own) > 1 and own[1][0] <= place:
                own.popleft()
            last, since_ms = own[0]
            if place >= last:
                self.took(since_ms, now_ms)
            near = place >= last and now_ms - since_ms < self.pace.patience_ms(self.window_ms)
            if not near and place < own[-1][0]:
                return
        self.active = False
        self._published.clear()
