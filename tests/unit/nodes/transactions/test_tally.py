"""Nodes' counts of transactions, without any process."""

from __future__ import annotations

from examples.bank import program
from nodes.transactions.layouts.portions import about_bytes
from nodes.transactions.metrics.counters import TransactionMeter
from tests.unit.txn_stage import Stage
from transactional.epochs.decision import Decision
from transactional.epochs.epoch import Epoch
from transactional.epochs.messages import Kind, Request
from transactional.errors import Aborted
from transactional.execution.rerun import Postponed, Rerun
from transactional.external import EXTERNAL_REQUEST
from transactional.tally import MOST_REASONS, OTHER_REASONS, TransactionTally

REQUEST = Request(Kind.RUN, "id", "account", "alice", "deposit", b"", 0, 0, 0)


def over(rerun: tuple[int, ...] = (), postponed: tuple[int, ...] = ()) -> Epoch:
    waiting = [Postponed(tid, 0, REQUEST, frozenset(), frozenset()) for tid in postponed]
    return Epoch(1, decision=Decision(rerun, {}), outcome=Rerun(postponed=waiting))


def test_only_the_partition_of_a_root_counts_it() -> None:
    tally, epoch = TransactionTally(), over(rerun=(5, 6), postponed=(6,))
    assert tally.epoch(epoch, [b"", b""], roots=[4, 5]) == 2
    assert (tally.committed, tally.rerun, tally.postponed) == (2, 1, 0)
    assert tally.epoch(epoch, [], roots=[6]) == 0
    assert (tally.epochs, tally.committed, tally.rerun, tally.postponed) == (2, 2, 2, 1)


def test_asking_the_outside_is_no_failure() -> None:
    tally = TransactionTally()
    assert tally.epoch(over(), [Aborted(EXTERNAL_REQUEST), Aborted("Refused"), b"", Aborted("Refused")], roots=[]) == 1
    assert tally.external_requests == 1 and tally.aborted == {"Refused": 2}


def test_a_flood_of_reasons_is_one_reason() -> None:
    tally = TransactionTally()
    tally.epoch(over(), [Aborted(f"E{n}") for n in range(MOST_REASONS + 10)], roots=[])
    assert len(tally.aborted) == MOST_REASONS + 1 and tally.aborted[OTHER_REASONS] == 10


def test_each_epoch_is_counted_once() -> None:
    stage, meter = Stage(program), TransactionMeter()
    driver = stage.start("a")
    for _ in range(3):
        stage.call("account", "alice", "deposit", [1])
        meter.turn(driver)
        meter.turn(driver)
    assert meter.epochs == driver.node.ledger.done >= 3
    assert sum(meter.rounds.counts) == sum(meter.epoch_durations.counts) == meter.epochs
    assert driver.steps.tally.committed == driver.steps.tally.replies == 3
    assert driver.steps.tally.epochs == meter.epochs * program.partitions


def test_size_of_a_large_table_comes_from_a_part_of_it() -> None:
    assert about_bytes({}) == 0
    assert about_bytes({("account", "ab"): b"123", ("account", "c"): None}) == 6
    assert about_bytes({("account", f"{n:06}"): b"1234" for n in range(50_000)}) == 500_000
