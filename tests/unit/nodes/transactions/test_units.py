"""Units of a node are loaded beside its loop: what goes on meanwhile, and each stage on the way."""

from __future__ import annotations

from typing import Any

import pytest

from examples.bank import program
from nodes.machine.partition_lifecycle import TRANSITIONS, LifecycleEvent, PartitionLifecycle
from nodes.machine.partition_lifecycle import PartitionStage as UnitStage
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions import driver
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.units.following import Unit
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional.epochs.sequencer import first_needed

ACCOUNTS = [f"a{number}" for number in range(12)]


class Loader:
    """A ``Saver`` whose works take ``load_ms`` each, side by side, and longer for units that are ``stuck``."""

    def __init__(self, stage: SlowToLoad) -> None:
        self.stage = stage
        self.works: list[tuple[int, Any, Any]] = []
        self.done: list[Any] = []

    def save(self, work: Any) -> None:
        made = work() if self.stage.reads_first else None
        self.works.append((self.stage.now_ms + self.stage.load_ms, work, made))

    def go_on(self) -> None:
        now_ms, stuck = self.stage.now_ms, self.stage.stuck
        ready = [each for each in self.works if each[0] <= now_ms and each[1].args[0].number not in stuck]
        self.works = [each for each in self.works if each not in ready]
        self.done += [work() if made is None else made for _, work, made in ready]

    def finished(self) -> list[Any]:
        done, self.done = self.done, []
        return done


class SlowToLoad(Stage):
    """Nodes whose loads take a while."""

    handover_timeout_ms = 3_000

    def __init__(self, replicas: int = 1) -> None:
        self.replicas = replicas
        self.load_ms = 0
        self.stuck: set[int] = set()
        self.reads_first = False
        self.loaders: list[Loader] = []
        super().__init__(program, interval_ms=50)

    def more(self, name: str) -> dict[str, Any]:
        loader = Loader(self)
        self.loaders.append(loader)
        return {"new_saver": lambda what: loader if what == "loader" else self.new_saver(what)}

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            for loader in self.loaders:
                loader.go_on()
            super().turn()

    def deposits(self, amount: int = 1) -> list[int]:
        return [self.call("account", key, "deposit", [amount]) for key in ACCOUNTS]

    def owned(self, driver: TransactionDriver) -> list[int]:
        return sorted(driver.node.owned_partitions())

    def until_it_loads(self, driver: TransactionDriver) -> None:
        for _ in range(400):
            if driver.units.loading:
                return
            self.turn()
        raise AssertionError("nothing is loaded")


def begun(replicas: int = 1) -> tuple[SlowToLoad, TransactionDriver]:
    """One node owns all, and has saved checkpoints."""
    stage = SlowToLoad(replicas)
    one = stage.start("one")
    for _ in range(4):
        stage.deposits()
        stage.turn(40)
    assert all(one.claiming.ownership.checkpoints(SEQUENCERS + p) for p in range(program.partitions))
    return stage, one


@pytest.mark.slow
def test_a_partition_that_moves_is_worked_on_while_the_next_owner_loads_it() -> None:
    stage, one = begun()
    stage.load_ms = 2_000
    other = stage.start("other")
    stage.until_it_loads(other)
    asked_ms = stage.now_ms
    assert stage.deposits() == [5] * len(ACCOUNTS)
    assert stage.now_ms - asked_ms < stage.load_ms / 2, "epochs have waited for the load"
    assert other.units.loading and not stage.owned(other) and stage.owned(one) == list(range(program.partitions))
    stage.turn(2_000)
    moved = stage.owned(other)
    assert moved and sorted(moved + stage.owned(one)) == list(range(program.partitions))
    assert stage.deposits() == [6] * len(ACCOUNTS)
    assert set(other.units.stages().values()) == {UnitStage.OWNING}


def test_an_owner_that_dies_while_the_next_one_loads_is_followed_by_it() -> None:
    stage, _ = begun()
    stage.load_ms = 400
    other = stage.start("other")
    stage.until_it_loads(other)
    del stage.nodes["one"]
    assert stage.deposits() == [5] * len(ACCOUNTS)
    assert stage.owned(other) == list(range(program.partitions))


@pytest.mark.slow
def test_a_request_partition_is_claimed_by_a_node_that_has_read_the_ids_that_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "FOLLOWED_BATCH", 2)
    stage, one = begun()
    for _ in range(10):
        stage.deposits()
    other = stage.start("other")
    behind = 0
    for _ in range(1_000):
        stage.turn()
        ledger = other.node.ledger
        for number in [unit for unit in other.claiming.incoming if unit in other.node.sequencers]:
            lacks = other.node.sequencers[number].position < first_needed(ledger, number)
            behind += lacks
            assert not (lacks and number in other.units.abreast())
        if other.node.owned_sequencers():
            break
    assert behind, "it knew all ids at once"
    assert stage.owned(one) and stage.deposits() == [15] * len(ACCOUNTS)


def leaves(stage: SlowToLoad, name: str, node: TransactionDriver) -> int:
    """As its process does at SIGTERM; the time until it has gone."""
    since_ms = stage.now_ms
    node.begin_leaving()
    for _ in range(4_000):
        if node.may_leave:
            node.leave()
            del stage.nodes[name]
            left_after_ms = stage.now_ms - since_ms
            stage.turn(2)  # the others read it
            return left_after_ms
        stage.turn()
    raise AssertionError("it does not leave")


def shared_by_two() -> tuple[SlowToLoad, TransactionDriver, TransactionDriver]:
    stage, one = begun()
    other = stage.start("other")
    stage.turn(400)
    assert stage.owned(one) and stage.owned(other)
    return stage, one, other


@pytest.mark.slow
def test_a_node_that_leaves_works_on_until_others_have_loaded_its_partitions() -> None:
    stage, one, other = shared_by_two()
    stage.load_ms, owned = 2_000, stage.owned(one)
    one.begin_leaving()
    stage.until_it_loads(other)
    asked_ms = stage.now_ms
    assert stage.deposits() == [5] * len(ACCOUNTS)
    assert stage.now_ms - asked_ms < stage.load_ms / 2, "epochs have waited for the load"
    assert stage.owned(one) == owned and not one.may_leave
    assert leaves(stage, "one", one) < stage.load_ms
    assert stage.owned(other) == list(range(program.partitions)) and not other.units.loading
    stage.load_ms = 60_000  # nothing is loaded after it has gone
    assert stage.deposits() == [6] * len(ACCOUNTS)


@pytest.mark.slow
def test_a_node_that_others_cannot_follow_leaves_after_a_bound_of_time() -> None:
    stage, one, other = shared_by_two()
    stage.load_ms = 60_000
    assert leaves(stage, "one", one) == stage.handover_timeout_ms
    assert list(other.claiming.ownership.members) == ["other"]


@pytest.mark.slow
def test_the_last_node_leaves_at_once_and_so_do_all_that_leave_together() -> None:
    stage, one, other = shared_by_two()
    stage.load_ms = 60_000
    other.begin_leaving()
    assert leaves(stage, "one", one) < 100 and leaves(stage, "other", other) < 100
    stage.load_ms = 0
    alone = stage.start("alone")
    assert stage.deposits() == [5] * len(ACCOUNTS)
    assert leaves(stage, "alone", alone) == 0


@pytest.mark.slow
def test_a_node_that_leaves_is_no_standby_and_a_standby_takes_its_partitions_at_once() -> None:
    stage, one = begun(replicas=2)
    other = stage.start("other")
    stage.turn(400)
    assert one.node.standbys and other.node.standbys
    stage.load_ms = 60_000
    assert leaves(stage, "one", one) < 200
    assert not one.node.standbys and stage.owned(other) == list(range(program.partitions))
    assert stage.deposits() == [5] * len(ACCOUNTS)


def loads_beside_a_busy_owner(*, reads_first: bool) -> tuple[SlowToLoad, TransactionDriver, list[Unit]]:
    """A node is loading units that it will be a standby of, while checkpoints pass those that it loads."""
    stage, _ = begun(replicas=2)
    stage.load_ms, stage.reads_first = 1_000, reads_first
    other = stage.start("other")
    stage.until_it_loads(other)
    stage.turn(20)
    held = [unit for unit in other.units.loading if unit.number not in other.claiming.incoming]
    stage.stuck = {unit.number for unit in held}  # the others come to it
    stage.turn(400)
    since = min(unit.since for unit in held)
    for _ in range(4):
        stage.deposits()
        stage.turn(30)
    assert other.units.loading == held
    assert other.checkpoints.first_epoch_needed() > since, "checkpoints have passed the ones that are being loaded"
    return stage, other, held


@pytest.mark.slow
def test_epochs_that_a_load_will_need_are_not_forgotten_while_others_save() -> None:
    stage, other, _ = loads_beside_a_busy_owner(reads_first=True)
    stage.stuck = set()
    stage.turn(20)
    assert set(other.units.stages().values()) == {UnitStage.OWNING, UnitStage.STANDBY_RUNNING}
    del stage.nodes["one"]
    assert stage.deposits() == [9] * len(ACCOUNTS)


@pytest.mark.slow
def test_checkpoints_that_were_replaced_during_a_load_are_looked_for_again() -> None:
    stage, other, held = loads_beside_a_busy_owner(reads_first=False)
    names = {unit.number: unit.names for unit in held}
    gone = [unit for unit in held if stage.store.files.keys().isdisjoint(unit.names)]
    assert gone, "files that no other rests upon are deleted"
    node, stage.stuck = other.node, set()
    stage.turn(20)
    assert all(unit.names and unit.names != names[unit.number] for unit in gone), "they are not loaded again"
    stage.turn(300)
    assert set(other.units.stages().values()) == {UnitStage.OWNING, UnitStage.STANDBY_RUNNING}
    assert other.node is node, "the log was read from its start"
    del stage.nodes["one"]
    assert stage.deposits() == [9] * len(ACCOUNTS)


@pytest.mark.slow
def test_a_node_walks_only_along_the_table_and_through_each_of_its_own_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[UnitStage, LifecycleEvent]] = set()
    happens = PartitionLifecycle.happens

    def noted(life: PartitionLifecycle, event: LifecycleEvent) -> None:
        seen.add((life.stage, event))
        happens(life, event)

    monkeypatch.setattr(PartitionLifecycle, "happens", noted)
    for replicas in (1, 2):
        stage, _ = begun(replicas)
        stage.load_ms = 300
        other = stage.start("other")
        stage.turn(400)
        stage.start("third")
        stage.turn(400)
        stage.deposits()
        del stage.nodes["one"]
        stage.turn(60)
        stage.deposits()
        stage.store = MemoryCheckpoints()
        stage.nodes["one-again"] = stage.nodes.pop("third")
        stage.start("fourth")
        stage.turn(600)
        assert stage.deposits() and other.node.owned_partitions()
    ours = {
        (UnitStage.LOADING, LifecycleEvent.LOADED),
        (UnitStage.LOADING, LifecycleEvent.STANDBY_BEGUN),
        (UnitStage.SCANNING, LifecycleEvent.SCANNED),
        (UnitStage.STANDBY_LOADING, LifecycleEvent.LOADED),
        (UnitStage.STANDBY_SCANNING, LifecycleEvent.SCANNED),
        (UnitStage.STANDBY_RUNNING, LifecycleEvent.CLAIMED),
        (UnitStage.STANDBY_RUNNING, LifecycleEvent.ENDED),
        (UnitStage.OWNING, LifecycleEvent.ENDED),
    }
    assert ours <= seen <= TRANSITIONS.keys(), f"missing: {ours - seen}, in no table: {seen - TRANSITIONS.keys()}"
