"""Checkpoints of an owner that was a standby, on a slow store: whenever it dies, nothing acknowledged is lost."""

from __future__ import annotations

from typing import Any

import pytest

from examples.bank import program
from nodes.machine import messages as m
from nodes.transactions.checkpoints import chains
from nodes.transactions.checkpoints.chain_life import CheckpointStage as ChainStage
from tests.unit.txn_stage import SEQUENCERS, SlowSaver, Stage
from transactional import events as e
from transactional.requests.requests import WireRequest
from transactional.state.partition import StatePartition

PLACE = 0
SAVE_MS = 300
KEYS = [key for key in (f"a{number}" for number in range(40)) if program.place("account", key) == PLACE]


class SlowStore(Stage):
    """Two nodes that are standbys of each other, whose saves take a while; one is killed."""

    replicas = 2

    def __init__(self) -> None:
        super().__init__(program, interval_ms=50)
        self.expected = dict.fromkeys(KEYS, 0)
        self.others = [f"b{number}" for number in range(40)]
        self.savers: list[SlowSaver] = []
        self.asked: list[bool] = []
        self.start("one"), self.start("other")
        self.turn(200)
        for _ in range(4):  # so that there are older checkpoints of all partitions
            self.deposit(*KEYS)
            self.client.send_all(
                WireRequest(f"{key}-{self.now_ms}", "account", key, "deposit", [1]) for key in self.others
            )
            self.turn(150)
        self.owner = next(name for name in self.nodes if PLACE in self.owned(name))
        (self.survivor,) = self.nodes.keys() - {self.owner}

    def kill_owner(self) -> None:
        """Until the other one has taken over in place."""
        del self.nodes[self.owner]
        self.until_promoted()

    def more(self, name: str) -> dict[str, Any]:
        saver = SlowSaver(lambda: self.now_ms, lambda: SAVE_MS)
        self.savers.append(saver)
        return {"new_saver": lambda what: saver if what == "saver" else self.new_saver(what)}

    def spy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note which snapshots the partition is asked for; only the life of its chain may do so."""
        want = StatePartition.want_snapshot

        def asked(partition: StatePartition, *, whole: bool = False) -> None:
            if partition.number == PLACE:
                checkpoints = self.nodes[self.survivor][0].checkpoints
                assert PLACE in checkpoints.saved_units, "asked for beside the lifecycle of its chain"
                assert checkpoints.saved_units[PLACE].chain.state.stage is ChainStage.WANTED
                self.asked.append(whole)
            want(partition, whole=whole)

        monkeypatch.setattr(StatePartition, "want_snapshot", asked)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            for saver in self.savers:
                saver.go_on()
            super().turn()

    def owned(self, name: str) -> list[int]:
        return sorted(self.nodes[name][0].node.owned_partitions())

    def until_promoted(self) -> None:
        for _ in range(1_000):
            if PLACE in self.owned(self.survivor):
                return
            self.turn()
        raise AssertionError("the standby does not take over")

    def deposit(self, *keys: str) -> None:
        for key in keys:
            self.expected[key] += 1
            assert self.call("account", key, "deposit", [1]) == self.expected[key]

    def notices(self) -> int:
        """Checkpoints that the survivor has announced."""
        values = self.log.read(self.topics.control, 0, 0).values
        said = [m.decode_control(value) for value in values]
        saved = [each for each in said if isinstance(each, m.CheckpointSaved) and each.node == self.survivor]
        return sum(each.partition == SEQUENCERS + PLACE for each in saved)


@pytest.mark.parametrize("deaths_notice", [1, 2, 3, 4])
def test_whichever_checkpoint_of_a_promoted_standby_is_its_last_one_nothing_is_lost(deaths_notice: int) -> None:
    stage = SlowStore()
    stage.kill_owner()
    before = stage.notices()
    stage.deposit(*KEYS)  # while the first checkpoint, which holds all, is saved
    for _ in range(3_000):
        if stage.notices() - before >= deaths_notice:
            break
        stage.turn()
        if stage.now_ms % 50 == 0:
            stage.deposit(KEYS[0])  # the others stay as they are
    else:
        raise AssertionError(f"{stage.notices() - before} checkpoints")
    stage.nodes.clear()
    stage.savers.clear()
    stage.start("third")
    assert {key: stage.call("account", key, "balance") for key in KEYS} == stage.expected


def test_a_promoted_standby_asks_for_all_once_and_only_by_the_life_of_its_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = SlowStore()
    stage.spy(monkeypatch)
    stage.kill_owner()
    for _ in range(1_000):
        if len(stage.asked) >= 3:
            break
        stage.turn()
        stage.deposit(KEYS[0])
    assert stage.asked == [True, False, False]


def test_an_owner_that_was_a_standby_for_a_while_drops_the_snapshot_that_it_had_made_before() -> None:
    stage = SlowStore()
    driver = stage.nodes[stage.owner][0]
    partition, checkpoints = driver.node.partitions[PLACE], driver.checkpoints
    stage.deposit(*KEYS)
    partition.want_snapshot()  # made, and nobody takes it: the claims have moved on
    driver.node.receive(e.StandbyBegun(SEQUENCERS + PLACE))
    checkpoints.turn(driver.node.owned_partitions(), stage.now_ms)
    driver.node.receive(e.StandbyPromoted(SEQUENCERS + PLACE))
    checkpoints.promoted(PLACE)
    before = len(stage.store.files)
    for _ in range(400):
        stage.turn()
    assert len(stage.store.files) > before
    for saved in checkpoints.ownership.checkpoints(SEQUENCERS + PLACE)[:1]:
        parts, state = chains.load_file(stage.store, saved.name)
        rows: dict[str, bytes | None] = {}
        for each in (*chains.states(stage.store, parts, (saved.name, state)), state):
            rows.update((key, value) for _, key, value in each.items)
        assert set(KEYS) <= rows.keys(), "all of the partition"
