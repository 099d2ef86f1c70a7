"""Layouts of a transactional job's keys on the control topic: one is proposed after the other.

Two rules for this file. A layout is text here: its meaning is that of the epochs topic, where it begins to hold. The
next one may be proposed only once the last one is done, so of two that are proposed at once one is void. Where a
request goes in portions, each of them is a layout with the next number. The request is open until the last one holds.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from nodes.machine import messages as m
from nodes.machine.ownership import commands as c

T = TypeVar("T")


class LayoutOutcome(msgspec.Struct, frozen=True):
    """``problem``: why it never held, "": keys have their homes by it. None: who finished it had not seen all of it.

    ``resumed``: another node than the one that began it. Times are that node's: until the layout held, and between the
    last epoch before it and the first one of it. ``first``: the number of the first of several portions, of which this
    has the sums, and the longest of the times between epochs; 0: there is one.
    """

    number: int
    problem: str = ""
    keys: int | None = None
    size_bytes: int | None = None
    replies: int | None = None
    took_ms: int | None = None
    downtime_ms: int | None = None
    resumed: bool = False
    first: int = 0

    def behind(self, before: LayoutOutcome | None) -> LayoutOutcome:
        """Together with the portions before it."""
        if before is None:
            return self
        return msgspec.structs.replace(
            self,
            keys=_sum(before.keys, self.keys),
            size_bytes=_sum(before.size_bytes, self.size_bytes),
            replies=_sum(before.replies, self.replies),
            took_ms=_sum(before.took_ms, self.took_ms),
            downtime_ms=_longest(before.downtime_ms, self.downtime_ms),
            resumed=before.resumed or self.resumed,
            first=before.first or before.number,
        )


class ProposedLayout(msgspec.Struct, frozen=True):
    """Layout ``number`` (the first is 0). ``units``: those of the job that it needs; ``about``: to be shown.

    ``online``: keys are copied to their homes in it before it holds. ``parted``: some of its groups have operators
    apart, so that nodes which do not know those would look for keys elsewhere. ``in_portions``: it takes
    several layouts, of which each holds by a record of its own. ``so_far``: those that hold, if it goes on with this
    number. Its ``layout`` has the number that it was requested with all the same.
    """

    number: int
    units: int
    layout: msgspec.Raw
    about: dict[str, str | int | list[str]] = {}
    online: bool = False
    parted: bool = False
    in_portions: bool = False
    so_far: LayoutOutcome | None = None

    @property
    def format(self) -> int:
        """The first wire format whose readers find all keys by it."""
        if self.in_portions:
            return m.PORTIONS_VERSION
        return m.COPIES_VERSION if self.online or self.parted else m.LAYOUTS_VERSION

    @property
    def as_requested(self) -> ProposedLayout:
        """Without its portions."""
        number = self.number if self.so_far is None else self.so_far.first or self.so_far.number
        return msgspec.structs.replace(self, number=number, in_portions=False, so_far=None)

    @property
    def portions_held(self) -> int:
        """How many portions of the request hold."""
        return self.number - self.as_requested.number


class LayoutPortion(msgspec.Struct, frozen=True):
    """This layout holds, and keys have moved a part of the way by it. ``is_last``: it is the requested one."""

    outcome: LayoutOutcome
    layout: msgspec.Raw
    is_last: bool


class LayoutProgress(msgspec.Struct, frozen=True):
    """Of copies to homes in layout ``number``. ``left_s``: by their pace until now; None: it is not known yet.

    ``waits_for``: copies cannot begin, nor the layout hold, before that; "": it waits for nothing else.
    """

    number: int
    copied_bytes: int
    left_items: int
    left_s: float | None = None
    waits_for: str = ""


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
    def newest_request(self) -> ProposedLayout | None:
        """Open or not; None: nobody has requested a layout."""
        return _proposed(self.proposed) if self.proposed else None

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
            case m.IN_PORTIONS:
                self.take_portions(argument)
            case m.LAYOUT_PORTION:
                self.portion_held(argument)
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
        """Void unless it is about the open one. One in portions is done by the last of them, or given up."""
        made, is_open = _outcome(argument), self.open
        if made is None or is_open is None or made.number != is_open.number:
            return
        if is_open.in_portions and not made.problem:
            return
        self.outcome = argument if is_open.so_far is None else _text(made.behind(is_open.so_far))
        if not made.problem:
            self.layout = self.proposed

    def take_portions(self, argument: str) -> None:
        """Void unless it has the number of the open one."""
        if (is_open := self.open) is not None and argument == str(is_open.number):
            self.proposed = _text(msgspec.structs.replace(is_open, in_portions=True))

    def portion_held(self, argument: str) -> None:
        """Void unless it is about the open one, which goes on with the next number if this portion is not the last."""
        made, is_open = _decoded(argument, LayoutPortion), self.open
        if made is None or is_open is None or not is_open.in_portions:
            return
        if made.outcome.number != is_open.number or made.outcome.problem:
            return
        so_far = made.outcome.behind(is_open.so_far)
        self.layout = _text(msgspec.structs.replace(is_open, layout=made.layout))
        if made.is_last:
            self.outcome = _text(so_far)
        else:
            following = msgspec.structs.replace(is_open, number=is_open.number + 1, so_far=so_far)
            self.proposed = _text(following)


def first_format(layouts: tuple[str, str, str]) -> int:
    """Of what a ``LayoutFold`` has, in the order of its arguments: an older reader would not find all keys."""
    proposed, _, layout = layouts
    made = [_proposed(text) for text in (proposed, layout) if text]
    return max((each.format for each in made if each is not None), default=m.LAYOUTS_VERSION)


def outcome_of(fold: LayoutFold, number: int) -> LayoutOutcome | None:
    """The end of the newest proposal, if that or a portion of it has this number, and it has ended."""
    made = _outcome(fold.outcome) if fold.outcome else None
    return made if made is not None and (made.first or made.number) <= number <= made.number else None


def _proposed(text: str) -> ProposedLayout | None:
    made = _decoded(text, ProposedLayout)
    return made if made is not None and made.number > 0 and made.units > 0 else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _longest(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def _outcome(text: str) -> LayoutOutcome | None:
    return _decoded(text, LayoutOutcome)


def _decoded(text: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
