"""Decisions of autoscalers on the control topic: they are numbered, and the first of its number wins.

A rule for this file: a decision is text here. Nodes do nothing about it; the autoscaler that made it acts on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

KEPT_DECISIONS = 64


class _Head(msgspec.Struct, frozen=True):
    number: int


class DecisionFold:
    """``kept``: the newest that won, as their commands have them, oldest first."""

    def __init__(self, kept: Sequence[str] = ()) -> None:
        self.kept = list(kept)

    @property
    def number(self) -> int:
        """Of the last one; 0: there was none."""
        return _number(self.kept[-1]) if self.kept else 0

    def take(self, argument: str) -> None:
        """Void unless it is the next one."""
        if _number(argument) == self.number + 1:
            self.kept = [*self.kept, argument][-KEPT_DECISIONS:]


def _number(argument: str) -> int:
    """-1: it is none."""
    try:
        return msgspec.json.decode(argument, type=_Head).number
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return -1
