"""The lead: whether a standby publishes at once, since the claim holder was late.

Two rules for this file: a standby takes the lead only where something was late by its patience; it gives it back as
soon as somebody else is seen to keep pace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any


class Lead:
    """``window_ms``: whoever is behind by less keeps pace. Times are the standby's running time."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self.active = False
        self._published: dict[Hashable, deque[tuple[Any, int]]] = {}

    def take(self) -> None:
        """Publish at once from now on."""
        self.active = True

    def published(self, sequence: Hashable, place: Any, now_ms: int) -> None:
        """Everything of the sequence up to ``place`` is written."""
        self._published.setdefault(sequence, deque()).append((place, now_ms))

    def last_of(self, sequence: Hashable, nothing: Any) -> Any:
        """Up to where this copy has written the sequence in this lead."""
        own = self._published.get(sequence)
        return own[-1][0] if own else nothing

    def other_at(self, sequence: Hashable, place: Any, now_ms: int) -> None:
        """Somebody else has written ``place``: the lead goes back if that is no longer ago here than the window."""
        if not self.active:
            return
        own = self._published.get(sequence)
        if own:
            while len(own) > 1 and own[1][1] <= now_ms - self.window_ms:
                own.popleft()
            if place < own[-1][0] and place <= own[0][0]:
                return
        self.active = False
        self._published.clear()
