"""Decisions of autoscalers on the control topic: they are numbered, and the first of its number wins.

Two rules for this file. A decision is text here: nodes do nothing about it, and the autoscaler that made it acts on it.
Some numbers may be left out: a checkpoint of the topic by a release before lacks decisions. A reader that begins there
knows none of them, and agrees with the others from the next one on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

KEPT_DECISIONS = 64


class _Head(msgspec.Struct, frozen=True):
    number: int


class DecisionFold:
    """``kept``: the newest that won, as their commands have them, oldest first; None: they are not known."""

    def __init__(self, kept: Sequence[str] | None = ()) -> None:
        self.kept = list(kept or ())
        self.is_lost = kept is None
        """There may have been some, and none is known."""

    @property
    def number(self) -> int:
        """Of the last one; 0: none is known."""
        return _number(self.kept[-1]) if self.kept else 0

    def next_number(self, control_end: int) -> int:
        """For one that is made now. ``control_end``: of the topic, which has more records than there were decisions."""
        return 1 + (control_end if self.is_lost else self.number)

    def state(self) -> list[str] | None:
        """As it is given to a new fold."""
        return None if self.is_lost else list(self.kept)

    def take(self, argument: str) -> None:
        """Void unless it comes after the last one."""
        if _number(argument) > self.number:
            self.kept, self.is_lost = [*self.kept, argument][-KEPT_DECISIONS:], False


def _number(argument: str) -> int:
    """-1: it is none."""
    try:
        return msgspec.json.decode(argument, type=_Head).number
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return -1
