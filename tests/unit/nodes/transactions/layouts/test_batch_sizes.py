"""The size of batches of copies: it grows while epochs are short, and gives way to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from nodes.transactions.layouts.batch_sizes import FEWER, LEAST_SHARE, SHORT_MS, BatchSizes
from transactional.epochs.ledger import Ledger

STEP, MOST = 1_000, 8_000
PLAN = SimpleNamespace(layout=SimpleNamespace(number=1))


class Told:
    """A ledger as far as it counts here, and the clock."""

    def __init__(self, sizes: BatchSizes) -> None:
        self.sizes = sizes
        self.now_ms = self.done = 0
        self.is_at_work = False
        self.batches: dict[int, int] = {}
        self.layouts = SimpleNamespace(open_plan=None)
        self.copies: Any = SimpleNamespace(
            sender=None, of=lambda layout, number: SimpleNamespace(batches=range(self.batches.get(number, 0)))
        )

    def is_open(self, number: int) -> bool:
        return self.is_at_work and number == self.done + 1

    def turn(self) -> int:
        return self.sizes.turn(cast("Ledger", self), self.now_ms)

    def epoch(self, took_ms: int) -> int:
        """It begins, and ends so much later."""
        self.is_at_work = True
        self.turn()
        self.now_ms, self.done, self.is_at_work = self.now_ms + took_ms, self.done + 1, False
        return self.turn()

    def arrived(self, sender: int = 0) -> int:
        self.copies.sender = sender
        self.batches[sender] = self.batches.get(sender, 0) + 1
        return self.turn()

    def plan(self) -> int:
        self.layouts.open_plan = PLAN
        self.copies.sender = 0
        return self.turn()


def test_each_batch_that_arrives_doubles_the_next_one_up_to_the_most() -> None:
    told = Told(BatchSizes(STEP, MOST))
    assert told.turn() == told.plan() == told.turn() == STEP
    assert [told.arrived() for _ in range(5)] == [2_000, 4_000, 8_000, 8_000, 8_000]


def test_where_epochs_are_in_work_it_grows_by_a_quarter_of_a_step() -> None:
    told = Told(BatchSizes(STEP, MOST))
    told.plan()
    told.epoch(1)
    assert told.arrived() == 1_250
    told.is_at_work = True
    assert told.turn() == 1_250 and told.arrived() == 1_500, "one that has not ended"
    assert told.arrived() == 1_750, "it is in work still"
    told.done, told.is_at_work = told.done + 1, False
    assert told.turn() == 1_750 and told.arrived() == 2_000
    assert told.arrived() == 4_000


def test_an_epoch_that_takes_much_longer_than_those_before_the_plan_makes_it_small_down_to_the_least() -> None:
    told = Told(BatchSizes(STEP, MOST))
    for _ in range(50):
        told.epoch(40)
    told.plan()
    told.arrived()
    assert told.epoch(59) == 2_000, "that is no more than half as long again"
    assert told.epoch(61) == 2_000 // FEWER
    assert told.arrived() == 500, "the one in whose time it was does not count for growth"
    assert told.arrived() == 1_000
    for _ in range(9):
        told.epoch(200)
    assert told.turn() == STEP // LEAST_SHARE


def test_a_short_epoch_is_short_whatever_was_usual() -> None:
    told = Told(BatchSizes(STEP, MOST))
    told.epoch(1)
    told.plan()
    assert told.epoch(SHORT_MS) == STEP and told.epoch(SHORT_MS + 1) == STEP // FEWER


def test_epochs_during_copies_change_nothing_of_what_is_usual() -> None:
    told = Told(BatchSizes(STEP, MOST))
    told.epoch(40)
    told.plan()
    for _ in range(100):
        told.epoch(100)
    assert told.arrived() == STEP // LEAST_SHARE
    assert told.arrived() == STEP // 2
    assert told.epoch(61) == STEP // LEAST_SHARE, "40 ms is usual still"


def test_time_in_which_no_epoch_is_in_work_is_no_epochs() -> None:
    told = Told(BatchSizes(STEP, MOST))
    told.plan()
    for _ in range(3):
        told.now_ms += 10_000
        assert told.epoch(5) == STEP


def test_another_sender_of_the_node_and_the_next_portion_go_on_at_the_same_size() -> None:
    told = Told(BatchSizes(STEP, MOST))
    told.plan()
    told.arrived(0)
    told.copies.sender = 3
    assert told.turn() == 2_000, "nothing has arrived"
    assert told.arrived(3) == 4_000
    told.layouts.open_plan = None
    assert told.turn() == 4_000
    told.layouts.open_plan = SimpleNamespace(layout=SimpleNamespace(number=2))
    told.batches[3] = 0
    assert told.turn() == 4_000, "batches of the portion before are none of this one"
    assert told.arrived(3) == 8_000


def test_where_a_batch_may_have_no_more_than_a_step_makes_nothing_adapts() -> None:
    told = Told(BatchSizes(STEP, STEP))
    told.plan()
    assert {told.arrived(), told.epoch(1_000), told.arrived(), told.epoch(1_000)} == {STEP}
