"""Verdicts on functions that end their process: which counts, which barriers go by it, and what stops by name."""

from __future__ import annotations

import pytest

from tests.unit.txn_crashing import CRASHED, program
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.appends import Append, AppendEpochs
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import Attempt, Contribution, Crashes, RoundBarrier, epoch_message, to_bytes
from transactional.errors import Aborted
from transactional.execution.crashing import (
    EVERYWHERE,
    Caution,
    CrashesHere,
    Crashing,
    DiedInTransaction,
    NextRound,
    Trying,
)

NOTHING = Contribution([], [], [], [])


def verdict(tid: int = 7, *, round_: int = 1, partition: int = 0) -> Crashes:
    return Crashes(tid, 1, partition, round_, CRASHED)


def barrier(*, without: int = 0, round_: int = 1, partition: int = 0) -> RoundBarrier:
    return RoundBarrier(partition, 1, round_, [], NOTHING, False, without)


def test_the_first_verdict_before_the_partitions_barrier_counts_and_older_barriers_do_not() -> None:
    ledger = Ledger(program, 1)
    ledger.apply(to_bytes(verdict()))
    ledger.apply(to_bytes(Crashes(7, 1, 0, 1, Aborted("Crashed", ("later",)))))
    ledger.apply(to_bytes(barrier()))  # of an owner that knew nothing of it
    assert ledger.epoch(1).barrier(1, 0) is None and ledger.repeats == 1
    ledger.apply(to_bytes(barrier(without=1)))
    assert ledger.epoch(1).barrier(1, 0) == barrier(without=1)
    assert ledger.crashing.accused(1, 0)[7].failure == CRASHED
    ledger.apply(to_bytes(barrier(partition=1)))
    assert ledger.epoch(1).barrier(1, 1) is not None, "other partitions have run what they had of it"


def test_a_verdict_behind_the_barrier_of_its_round_or_a_later_one_is_void() -> None:
    ledger = Ledger(program, 1)
    ledger.apply(to_bytes(barrier(round_=2)))
    for round_, tid in ((1, 7), (2, 8)):
        ledger.apply(to_bytes(verdict(tid, round_=round_)))
        assert ledger.crashing.is_void(1, 0, tid)
    ledger.apply(to_bytes(verdict(9, round_=3)))
    assert list(ledger.crashing.accused(1, 0)) == [9]
    again = Ledger.restored(program, 1, ledger.snapshot())
    assert again.crashing.accused(1, 0) == ledger.crashing.accused(1, 0) and again.epoch(1).barrier(2, 0) is not None


def test_who_has_come_through_that_round_stops_by_name() -> None:
    ledger = Ledger(program, 1)
    ledger.expect(barrier())  # on its way to the log
    with pytest.raises(Nondeterministic, match=r"Crashed.*transaction 7 on another node"):
        ledger.apply(to_bytes(verdict()))


def coming(epoch: int = 1, *, done: int = 0, cut: int = 1, is_known: bool = False, is_owned: bool = True) -> NextRound:
    return NextRound(epoch, 1, done, cut, is_known, is_owned)


def said(out: list[Append]) -> list[object]:
    return [epoch_message(each.value) for each in out if isinstance(each, AppendEpochs)]


def test_the_second_incarnation_that_tries_an_epoch_tries_it_apart_and_accuses_whom_it_finds() -> None:
    crashing, out = Crashing(), list[Append]()
    crashing.trying = Trying("second", lambda step: DiedInTransaction(7, CRASHED))
    caution = Caution(crashing, 0)
    assert caution.holds_back(coming(), lambda: None, out) and caution.holds_back(coming(), lambda: None, out)
    assert said(out) == [Attempt(0, 1, "second")], "once, and waits for it"
    crashing.tried(Attempt(0, 1, "second"))
    assert not caution.holds_back(coming(), lambda: None, out), "nobody has died yet, as far as is known"
    crashing.tried(Attempt(0, 1, "first"))
    assert caution.holds_back(coming(), lambda: None, out) and said(out)[1:] == [verdict()]
    assert caution.holds_back(coming(), lambda: None, out) and len(out) == 2, "it waits for the verdict to come back"
    crashing.trying = Trying("second", lambda step: None)
    crashing.accuse(verdict())
    assert not caution.holds_back(coming(), lambda: None, out)


def test_who_has_not_just_taken_over_says_nothing() -> None:
    crashing, out = Crashing(), list[Append]()
    crashing.trying = Trying("life")
    caution = Caution(crashing, 0)
    assert not caution.holds_back(coming(1, done=1), lambda: None, out), "it is over"
    for epoch in (2, 3):  # both may have been run before
        assert caution.holds_back(coming(epoch, done=epoch - 1, cut=3), lambda: None, out)
        crashing.tried(Attempt(0, epoch, "life"))
        assert not caution.holds_back(coming(epoch, done=epoch - 1, cut=3), lambda: None, out)
    assert not caution.holds_back(coming(4, done=3, cut=5), lambda: None, out) and len(out) == 2


def test_what_the_owner_before_can_have_run_is_known_when_the_own_attempt_is_read() -> None:
    crashing, out = Crashing(), list[Append]()
    crashing.trying = Trying("life")
    caution = Caution(crashing, 0)
    assert caution.holds_back(coming(1, cut=1), lambda: None, out), "it has read little of the log so far"
    crashing.tried(Attempt(0, 1, "life"))
    assert not caution.holds_back(coming(1, cut=3), lambda: None, out), "three were cut before it came"
    assert caution.holds_back(coming(3, done=2, cut=4), lambda: None, out)
    assert said(out) == [Attempt(0, 1, "life"), Attempt(0, 3, "life")]


def test_a_standby_does_not_run_ahead_in_an_epoch_that_was_tried_anew() -> None:
    crashing, out = Crashing(), list[Append]()
    crashing.trying = Trying("standby")
    caution = Caution(crashing, 0)
    assert not caution.holds_back(coming(is_owned=False), lambda: None, out)
    crashing.tried(Attempt(1, 1, "owner"))
    assert caution.holds_back(coming(is_owned=False), lambda: None, out)
    assert not caution.holds_back(coming(is_owned=False, is_known=True), lambda: None, out) and not out


def test_whose_verdict_comes_too_late_stops_by_name() -> None:
    crashing, out = Crashing(), list[Append]()
    crashing.trying = Trying("life", lambda step: DiedInTransaction(7, CRASHED))
    for life in ("life", "other"):
        crashing.tried(Attempt(0, 1, life))
    caution = Caution(crashing, 0)
    assert caution.holds_back(coming(), lambda: None, out)
    crashing.pass_over(verdict())
    with pytest.raises(CrashesHere, match="state partition 0, epoch 1: transaction 7 ends its process here"):
        caution.holds_back(coming(), lambda: None, out)


def test_a_rerun_that_is_due_when_a_node_begins_waits_for_its_attempt() -> None:
    crashing = Crashing()
    crashing.trying = Trying("life")
    crashing.find_due(4)
    assert crashing.holds_back(4) and not crashing.holds_back(5)
    assert crashing.take_unpublished() == [Attempt(EVERYWHERE, 4, "life")] and not crashing.take_unpublished()
    crashing.tried(Attempt(EVERYWHERE, 4, "life"))
    assert not crashing.holds_back(4)
