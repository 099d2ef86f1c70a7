"""How far a layout is: as the control topic has it, by the pace of its copies, and in words."""

from __future__ import annotations

import msgspec
import pytest

from nodes.machine import messages as m
from nodes.machine.ownership import commands as c
from nodes.machine.ownership.layouts import LayoutFold, LayoutOutcome, LayoutProgress, ProposedLayout, outcome_of
from nodes.transactions.layouts.pace import LEAST_MS, CopyingPace
from nodes.transactions.layouts.repartitioning import copying
from transactional import Operator
from transactional.epochs.copies import Copies
from transactional.epochs.layout_messages import Copied
from transactional.layout import Group, Layout
from transactional.layout_history import LayoutHistory

COUNT = Operator("count", partitions=2)
NEXT = Layout.first({"count": COUNT}).changed({Group.of(COUNT): (2, *([0, 1] * 511), 2)})


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def proposed(number: int, *, online: bool = True) -> str:
    return text(ProposedLayout(number, 5, msgspec.Raw(b"{}"), {"to": 3}, online))


def test_the_first_request_of_a_number_is_open_until_it_is_done_or_given_up() -> None:
    fold = LayoutFold()
    assert fold.take(m.ONLINE_LAYOUT, proposed(2)) is None, "1 comes first"
    made = fold.take(m.ONLINE_LAYOUT, proposed(1))
    assert made is not None and made.online and fold.open == made
    assert fold.take(c.LAYOUT, proposed(1, online=False)) is None and fold.open == made, "one is open"
    fold.take(c.LAYOUT_DONE, text(LayoutOutcome(2)))
    assert fold.open == made, "that is another one"
    fold.take(c.LAYOUT_DONE, text(LayoutOutcome(1, "no room")))
    assert fold.open is None and fold.number == 0
    again = fold.take(c.LAYOUT, proposed(1, online=False))
    assert again is not None and not again.online
    fold.take(c.LAYOUT_DONE, text(LayoutOutcome(1)))
    assert fold.number == 1 and fold.newest == again and outcome_of(fold, 1) == LayoutOutcome(1)


@pytest.mark.parametrize("argument", ["", "{", '{"number": 1}', text(ProposedLayout(0, 5, msgspec.Raw(b"{}")))])
def test_a_request_that_cannot_be_read_is_void(argument: str) -> None:
    assert LayoutFold().take(c.LAYOUT, argument) is None


def test_progress_is_of_the_open_layout_and_of_no_other() -> None:
    fold = LayoutFold()
    one = LayoutProgress(1, 10, 5)
    fold.take(c.LAYOUT_PROGRESS, text(one))
    assert fold.progress is None
    fold.take(m.ONLINE_LAYOUT, proposed(1))
    fold.take(c.LAYOUT_PROGRESS, text(LayoutProgress(2, 10, 5)))
    assert fold.progress is None
    fold.take(c.LAYOUT_PROGRESS, text(one))
    assert fold.progress == one
    fold.take(c.LAYOUT_DONE, text(LayoutOutcome(1)))
    fold.take(c.LAYOUT, proposed(2))
    assert fold.progress is None, "another one has begun"


def test_time_left_follows_from_the_pace_since_all_sources_have_begun() -> None:
    layouts = LayoutHistory({"count": COUNT})
    assert layouts.add_plan(1, NEXT) and (plan := layouts.open_plan) is not None
    copies, pace = Copies(layouts), CopyingPace()

    def batch(source: int, index: int, left: int) -> None:
        assert copies.take(Copied(source, 1, index, 0, 1, (2, -1, "count", f"k{index}"), [], left, 1_000))

    batch(0, 0, 60)
    assert pace.progress(copies, plan, 100) == LayoutProgress(1, 1_000, 60, None), "nothing is known of the other one"
    batch(1, 0, 40)
    assert pace.progress(copies, plan, 200) == LayoutProgress(1, 2_000, 100, None)
    batch(0, 1, 35)
    assert pace.progress(copies, plan, 200 + LEAST_MS - 1).left_s is None
    assert pace.progress(copies, plan, 1_200) == LayoutProgress(1, 3_000, 75, 3.0), "25 in a second"


def test_portions_that_hold_and_those_to_come_count_too() -> None:
    layouts = LayoutHistory({"count": COUNT})
    assert layouts.add_plan(1, NEXT) and (plan := layouts.open_plan) is not None
    copies, pace = Copies(layouts), CopyingPace()
    for source, left in enumerate((60, 40)):
        assert copies.take(Copied(source, 1, 0, 0, 1, (2, -1, "count", "k"), [], left, 1_000))
    assert pace.progress(copies, plan, -9_000, 0, None) == LayoutProgress(1, 2_000, 100), "of the first one"
    assert pace.progress(copies, plan, 0, 5_000, 250) == LayoutProgress(1, 7_000, 100 + 250)
    assert copies.take(Copied(1, 1, 1, 0, 1, (2, -1, "count", "l"), [], 0, 1_000))
    assert pace.progress(copies, plan, 1_000, 5_000, 250) == LayoutProgress(1, 8_000, 60 + 250, 7.75), "40 a second"


def test_progress_in_words() -> None:
    assert copying(LayoutProgress(1, 2_340_000, 75, 3.2)) == "copied 2.3 MB, 75 keys and replies to go, about 3 s"
    assert copying(LayoutProgress(1, 0, 0)) == "copied 0.0 MB, 0 keys and replies to go"
