"""A node whose store is away when its ledger begins: its loop goes on, it is no member yet, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.machine import messages as m
from nodes.transactions.driver import TransactionDriver
from tests.unit.txn_stage import Stage, counters

PARTITIONS = 2
OUTAGE_TURNS = 2_400
"""12 s: the watchdog of a node that takes no turn for 10 s stops its heartbeats."""


class Held:
    """A ``Saver`` whose works wait until ``answers`` says that the store does."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        self.answers = answers
        self.works: list[Callable[[], Any]] = []

    def save(self, work: Callable[[], Any]) -> None:
        self.works.append(work)

    def finished(self) -> list[Any]:
        if not self.answers():
            return []
        works, self.works = self.works, []
        return [work() for work in works]


class Outage(Stage):
    """A job whose topics are trimmed; nodes that were started ``away`` read the store only beside their loop."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.held: list[Held] = []
        super().__init__(counters("outage", PARTITIONS), interval_ms=50, trim_ms=100, id_window=3)
        self.calls = 0

    def more(self, name: str) -> dict[str, Any]:
        def new_saver(what: str) -> Saver[Any]:
            if "loader" not in what:
                return DirectSaver()
            self.held.append(Held(lambda: name not in self.away))
            return self.held[-1]

        return {"new_saver": new_saver}

    def work(self, times: int) -> None:
        for _ in range(times):
            self.calls += 1
            assert self.call("count", "k", "add", [1]) == self.calls
            self.turn(5)

    def beats(self, name: str) -> int:
        """How many heartbeats of this node are on the log."""
        chunk = self.log.read(self.topics.heartbeats, 0, 0, max_records=1 << 20)
        beats = [m.decode_control(value) for value in chunk.values]
        return sum(isinstance(beat, m.Heartbeat) and beat.node == name for beat in beats)

    def rests(self, driver: TransactionDriver) -> bool:
        """Whether it has no part in the job, and nothing on the log but the control topic wakes it."""
        node = driver.node
        waits = {where.topic for where in driver.waits_for()}
        return not (node.partitions or node.sequencers or driver.claiming.owned) and waits == {self.topics.control}


@pytest.fixture
def stage() -> Outage:
    made = Outage()
    made.start("a")
    made.work(60)
    return made


@pytest.mark.slow
def test_a_node_that_starts_while_the_store_is_away_sends_heartbeats_and_joins_when_it_answers(stage: Outage) -> None:
    stage.away = {"b"}
    late = stage.start("b")
    stage.work(10)
    beats = stage.beats("b")
    stage.turn(OUTAGE_TURNS)
    assert stage.beats("b") - beats >= OUTAGE_TURNS * 5 / 50 * 0.9, "its loop has waited for the store"
    assert stage.rests(late) and not late.claiming.joined and late.watches
    stage.away = set()
    stage.work(40)
    assert late.claiming.joined and late.node.partitions and late.loading_owned() == []


@pytest.mark.slow
def test_checkpoints_that_are_deleted_while_the_store_is_away_are_not_missed(stage: Outage) -> None:
    stage.away = {"b"}
    late = stage.start("b")
    stage.turn()
    assert late.ledger_load.is_loading
    stage.work(80)  # newer ones, and older files go
    stage.away = set()
    stage.work(40)
    assert late.steps.begun and late.node.partitions, "the ledger was read from its start"


@pytest.mark.slow
def test_a_node_that_begins_anew_while_the_store_is_away_owns_on_and_says_what_waits(stage: Outage) -> None:
    late = stage.start("b")
    stage.work(40)
    assert late.node.owned_partitions()
    stopped = stage.nodes.pop("b")
    stage.work(280)  # others take over, and its place in the topics goes
    stage.nodes["b"], stage.away = stopped, {"b"}
    beats = stage.beats("b")
    stage.turn(OUTAGE_TURNS)
    assert late.ledger_load.is_loading and not late.node.partitions and not late.node.sequencers
    assert stage.beats("b") - beats >= OUTAGE_TURNS * 5 / 50 * 0.9
    stage.work(10)
    stage.away = set()
    stage.work(60)
    assert not late.ledger_load.is_loading and late.node.partitions


@pytest.mark.slow
def test_partitions_of_a_node_that_knows_no_ledger_are_shown_as_standing(stage: Outage) -> None:
    stage.away = {"a"}
    late = stage.start("a")  # the name of the one before it, so that all is its own, as if it began anew
    late.turn()
    assert late.ledger_load.is_loading and late.loading_owned() == list(range(PARTITIONS))
    stage.away = set()
    stage.work(20)
    assert late.loading_owned() == [] and late.node.partitions
