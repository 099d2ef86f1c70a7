"""Layouts of a transactional job's keys on the control topic: one is proposed after the other.

Two rules for this file. A layout is text here: its meaning is that of the epochs topic, where it begins to hold. The
next one may be proposed only once the last one is done, so of two that are proposed at once one is void.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from nodes.machine import messages as m
from nodes.machine.ownership import commands as c

T = TypeVar("T")


class ProposedLayout(msgspec.Struct, frozen=True):
    """Layout ``number`` (the first is 0). ``units``: those of the job that it needs; ``about``: to be shown.

    ``online``: keys are copied to their homes in it before it holds. ``parted``: some of its groups have operators
    apart, so that nodes which do not know those would look for keys elsewhere.
    """

    number: int
    units: int
    layout: msgspec.Raw
    about: dict[str, str | int | list[str]] = {}
    online: bool = False
    parted: bool = False

    @property
    def format(self) -> int:
        """The first wire format whose readers find all keys by it."""
        return m.COPIES_VERSION if self.online or self.parted else m.LAYOUTS_VERSION


class LayoutProgress(msgspec.Struct, frozen=True):
    """Of copies to homes in layout ``number``. ``left_s``: by their pace until now; None: it is not known yet.

    ``waits_for``: copies cannot begin, nor the layout hold, before that; "": it waits for nothing else.
    """

    number: int
    copied_bytes: int
    left_items: int
    left_s: float | None = None
    waits_for: str = ""


class LayoutOutcome(msgspec.Struct, frozen=True):
    """``problem``: why it never held, "": keys have their homes by it. None: who finished it had not seen all of it.

    ``resumed``: another node than the one that began it. Times are that node's: until the layout held, and between the
    last epoch before it and the first one of it.
    """

    number: int
    problem: str = ""
    keys: int | None = None
    size_bytes: int | None = None
    replies: int | None = None
    took_ms: int | None = None
    downtime_ms: int | None = None
    resumed: bool = False


class LayoutFold:
    """``proposed``: the newest, as its command has it; ``outcome``: the end of it, "": it is under way.

    ``layout``: the one that holds or is about to, "": the first.
    """

    def __init__(self, proposed: str = "", outcome: str = "", layout: str = "") -> None:
        self.proposed = proposed
        self.outcome = outcome
        self.layout = layout
        self.progress: LayoutProgress | None = None
        """Of the open one, as it was last told."""

    @property
    def open(self) -> ProposedLayout | None:
        """The one that is neither done nor given up."""
        return None if not self.proposed or self.outcome else _proposed(self.proposed)

    @property
    def newest(self) -> ProposedLayout | None:
        """The last one that held, or is about to; None: the first one of the job."""
        return _proposed(self.layout) if self.layout else None

    @property
    def number(self) -> int:
        """Of the last one that is done."""
        newest = self.newest
        assert newest is None or newest.number > 0
        return 0 if newest is None else newest.number

    def take(self, name: str, argument: str) -> ProposedLayout | None:
        """A command; gives the layout that it proposes, if that is not void."""
        match name:
            case c.LAYOUT | m.ONLINE_LAYOUT:
                return self.propose(argument)
            case c.LAYOUT_PROGRESS:
                self.progressed(argument)
            case c.LAYOUT_DONE:
                self.done(argument)
            case _:
                pass
        return None

    def propose(self, argument: str) -> ProposedLayout | None:
        """None: it is void."""
        made = _proposed(argument)
        if made is None or made.number != self.number + 1 or self.open is not None:
            return None
        self.proposed, self.outcome, self.progress = argument, "", None
        return made

    def progressed(self, argument: str) -> None:
        """Void unless it is about the open one."""
        made, is_open = _decoded(argument, LayoutProgress), self.open
        if made is not None and is_open is not None and made.number == is_open.number:
            self.progress = made

    def done(self, argument: str) -> None:
        """Void unless it is about the open one."""
        made, is_open = _outcome(argument), self.open
        if made is None or is_open is None or made.number != is_open.number:
            return
        self.outcome = argument
        if not made.problem:
            self.layout = self.proposed


def first_format(layouts: tuple[str, str, str]) -> int:
    """Of what a ``LayoutFold`` has, in the order of its arguments: an older reader would not find all keys."""
    proposed, _, layout = layouts
    made = [_proposed(text) for text in (proposed, layout) if text]
    return max((each.format for each in made if each is not None), default=m.LAYOUTS_VERSION)


def outcome_of(fold: LayoutFold, number: int) -> LayoutOutcome | None:
    """The end of the newest proposal, if that is its number and it has ended."""
    made = _outcome(fold.outcome) if fold.outcome else None
    return made if made is not None and made.number == number else None


def _proposed(text: str) -> ProposedLayout | None:
    made = _decoded(text, ProposedLayout)
    return made if made is not None and made.number > 0 and made.units > 0 else None


def _outcome(text: str) -> LayoutOutcome | None:
    return _decoded(text, LayoutOutcome)


def _decoded(text: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
