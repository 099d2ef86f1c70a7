"""The layouts of a job by epoch, and the plans for the next one.

As with layouts (``transactional/layout.py``), all of it follows from the records on the epochs topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from transactional.layout import Group, Layout, Placement, moved
from transactional.operators import Operator


class Change(NamedTuple):
    """Where keys live before an epoch, and in it. ``sources``: partitions from which some bucket moves."""

    before: Placement
    after: Placement
    sources: tuple[int, ...]


class Plan(NamedTuple):
    """The next layout, if it is planned. Copies to homes in it are of epochs from ``since`` on."""

    since: int
    layout: Layout
    change: Change


class LayoutHistory:
    """The layouts of a job, each with the first epoch in which it holds: a key has one home at each epoch.

    ``kept``: as ``since`` gives them, none: of a job that has only its first one. ``planned``: as by ``planned``.
    """

    def __init__(
        self,
        operators: Mapping[str, Operator],
        kept: Sequence[tuple[int, Layout]] = (),
        planned: Sequence[tuple[int, Layout]] = (),
    ) -> None:
        self._operators = dict(operators)
        self._layouts = list(kept) or [(0, Layout.first(operators))]
        self._placements: dict[int, Placement] = {}
        self._changes: dict[int, Change] = {}  # by the first epoch of the later layout
        self._find_placements()
        self.plans: dict[int, Plan] = {}
        """By the number of the layout, also of those that hold."""
        self._set_plans(planned)

    def learn(self, operators: Mapping[str, Operator]) -> None:
        """Those of another version of the program too: an operator is in the same group in each of them."""
        if not operators.keys() <= self._operators.keys():
            self._operators = {**operators, **self._operators}
            self._find_placements()
            self._set_plans([(each.since, each.layout) for each in self.plans.values()])

    @property
    def newest(self) -> Layout:
        return self._layouts[-1][1]

    def fits(self, layout: Layout) -> bool:
        """Whether its groups have known operators, as these were declared."""
        found = ((each.group, self._operators.get(name)) for each in layout.groups for name in each.group.apart)
        return all(operator is not None and Group.of(operator) == group.declared for group, operator in found)

    @property
    def oldest_number(self) -> int:
        """Of the oldest one that was not forgotten."""
        return self._layouts[0][1].number

    @property
    def newest_since(self) -> int:
        """The first epoch in which the newest one holds, or a later one that is over."""
        return self._layouts[-1][0]

    def at(self, epoch: int) -> Layout:
        """The one that holds in this epoch."""
        for since, layout in reversed(self._layouts):
            if since <= epoch:
                return layout
        raise AssertionError(f"epoch {epoch} is before layout {self._layouts[0][1].number}, the first that is known")

    def placement(self, epoch: int) -> Placement:
        """The homes of keys in this epoch: queried for every cut."""
        return self._placements[self.at(epoch).number] if self._only is None else self._only

    def change(self, epoch: int) -> Change | None:
        """The change of homes between the epoch before and this one; None: there is none, as far as is known."""
        return self._changes.get(epoch) if self._changes else None

    def opens(self, epoch: int) -> bool:
        """Whether it is due for the layouts' sake: keys move before it, or copies of an open plan begin at its end."""
        plan = self.open_plan
        return self.change(epoch) is not None or (plan is not None and plan.since == epoch)

    def is_member(self, partition: int, epoch: int) -> bool:
        """Whether the partition takes part in this epoch: else it has no keys, and sends nothing."""
        return partition < self.placement(epoch).partitions

    def add(self, since: int, layout: Layout) -> bool:
        """The first of its number wins: False where this one is void.

        One that would hold from the same epoch as the one before it is void too: keys may be on their way already.
        """
        before, newest = self._layouts[-1]
        if not self._may_follow(layout) or since <= before:
            return False
        if (plan := self.open_plan) is not None and plan.layout != layout:
            return False
        self._layouts.append((since, layout))
        self._placements[layout.number] = layout.placement(self._operators)
        self._note_change(since, newest, layout)
        self._find_only()
        return True

    @property
    def open_plan(self) -> Plan | None:
        """The plan for the next layout, until that is there."""
        return self.plans.get(self.newest.number + 1) if self.plans else None

    def planned(self, done: int) -> list[tuple[int, Layout]]:
        """Plans for a snapshot of the end of this epoch, without those of layouts that hold by then."""
        number = self.at(done).number if self.plans else 0
        return [(each.since, each.layout) for each in self.plans.values() if each.layout.number > number]

    def add_plan(self, since: int, layout: Layout) -> bool:
        """The first of its number wins: False where this one is void. Copies are of epochs from ``since`` on."""
        if self.open_plan is not None or not self._may_follow(layout):
            return False
        self._set_plans([(since, layout)])
        return True

    def _set_plans(self, planned: Iterable[tuple[int, Layout]]) -> None:
        known = {layout.number: layout for _, layout in self._layouts}
        for since, layout in planned:
            change = self._change(known[layout.number - 1], layout, layout.placement(self._operators))
            self.plans[layout.number] = Plan(since, layout, change)

    def _may_follow(self, layout: Layout) -> bool:
        return layout.number == self.newest.number + 1 and layout.divides(self.newest)

    def forget(self, before: int) -> None:
        """Drop layouts that hold neither in the epoch before this one nor later."""
        layouts = self._layouts
        while len(layouts) > 1 and layouts[1][0] < before:
            del self._placements[layouts.pop(0)[1].number]
            self._changes.pop(layouts[0][0], None)
            self.plans.pop(layouts[0][1].number, None)
            self._find_only()

    def _find_placements(self) -> None:
        self._placements = {layout.number: layout.placement(self._operators) for _, layout in self._layouts}
        for (_, before), (since, after) in pairwise(self._layouts):
            self._note_change(since, before, after)
        self._find_only()

    def _note_change(self, since: int, before: Layout, after: Layout) -> None:
        self._changes[since] = self._change(before, after, self._placements[after.number])

    def _change(self, before: Layout, after: Layout, placement: Placement) -> Change:
        sources = {was[bucket] for was, now in after.homes_since(before) for bucket in moved(was, now)}
        return Change(self._placements[before.number], placement, tuple(sorted(sources)))

    def _find_only(self) -> None:
        self._only = self._placements[self.newest.number] if len(self._layouts) == 1 else None

    def since(self, epoch: int) -> list[tuple[int, Layout]]:
        """The layout that holds in this epoch, and those after it; none where there is only the first."""
        later = [each for each in self._layouts if each[0] > epoch]
        return [(epoch, self.at(epoch)), *later] if self.newest.number else []
