"""Checkpoints of a transactional job are chains of changes: what they hold, how they merge, and what damage does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from examples.bank import program
from nodes.checkpoints.file_names import parse_name
from nodes.sim.store import FlakyCheckpoints, MemoryCheckpoints
from nodes.transactions.checkpoints import chains
from nodes.transactions.checkpoints.chains import FileReference, load_file, merge_files, save_file, states, to_merge
from nodes.transactions.checkpoints.compaction import compact_here
from nodes.transactions.topics import FIRST_INCARNATION
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional.epochs.ledger import Ledger
from transactional.state.partition import StatePartition
from transactional.state.restored import restored_state
from transactional.state.snapshots import FORMAT_VERSION, PartitionState, ReplyState, snapshot_bytes

UNIT = SEQUENCERS
JOB = f"{program.name}-txn"


def staged() -> Stage:
    stage = Stage(program, interval_ms=50)
    stage.start("one")
    return stage


def busy(stage: Stage, rounds: int, accounts: int = 8) -> None:
    """Deposits to all accounts, and time for checkpoints."""
    for _ in range(rounds):
        for number in range(accounts):
            stage.call("account", f"a{number}", "deposit", [1])
        stage.turn(12)


def heads(stage: Stage, name: str) -> list[tuple[list[FileReference], PartitionState]]:
    """The newest checkpoint of each state partition."""
    driver = stage.nodes[name][0]
    saved = [driver.claiming.ownership.checkpoint(SEQUENCERS + p) for p in range(program.partitions)]
    return [load_file(stage.store, each.name) for each in saved if each is not None]


def balances(stage: Stage, accounts: int = 8) -> list[int]:
    return [stage.call("account", f"a{number}", "balance") for number in range(accounts)]


def test_a_checkpoint_holds_what_was_written_since_the_last_one() -> None:
    stage = staged()
    busy(stage, rounds=2, accounts=60)
    stage.turn(30)
    stage.call("account", "a7", "deposit", [1])
    stage.turn(60)
    place = program.place("account", "a7")
    rows = [row for _, state in heads(stage, "one") if state.partition == place for row in state.items]
    assert len(rows) <= 1, "a deposit writes one entity"
    held = {
        row[1] for parts, state in heads(stage, "one") for s in (*states(stage.store, parts), state) for row in s.items
    }
    assert held == {f"a{number}" for number in range(60)}


def test_chains_stay_short_and_what_is_under_none_is_deleted() -> None:
    stage = staged()
    busy(stage, rounds=60)
    for unit in range(SEQUENCERS, SEQUENCERS + program.partitions):
        assert len(stage.store.list(JOB, FIRST_INCARNATION, unit)) < 40
    for name in stage.store.files:
        for part in chains.rests_on(stage.store, name) if ".0-" in name else ():
            assert parse_name(part.name)
    driver = stage.nodes["one"][0]
    for unit in range(SEQUENCERS, SEQUENCERS + program.partitions):
        for saved in driver.claiming.ownership.checkpoints(unit):
            parts, _ = load_file(stage.store, saved.name)
            assert len(parts) < 30
            assert sum(1 for _ in states(stage.store, parts)) == len(parts), "all that it rests upon is there"
    del stage.nodes["one"]
    stage.start("other")
    assert balances(stage) == [60] * 8


def test_a_new_owner_goes_on_with_the_chain_of_the_last_one() -> None:
    stage = staged()
    busy(stage, rounds=4)
    del stage.nodes["one"]
    stage.start("other")
    busy(stage, rounds=4)
    assert all(parts for parts, _ in heads(stage, "other"))
    del stage.nodes["other"]
    stage.start("third")
    assert balances(stage) == [8] * 8


@pytest.mark.parametrize("how", ["lost", "torn"])
@pytest.mark.parametrize("which", ["first", "last"])
def test_damage_of_any_file_is_survived(how: str, which: str) -> None:
    stage = staged()
    busy(stage, rounds=6)
    busy(stage, rounds=1)
    for parts, _ in heads(stage, "one"):
        name = parts[0 if which == "first" else -1].name
        if how == "lost":
            del stage.store.files[name]
        else:
            stage.store.files[name] = stage.store.files[name][:-5]
    del stage.nodes["one"]
    stage.start("other")
    assert balances(stage) == [7] * 8
    busy(stage, rounds=3)
    del stage.nodes["other"]
    stage.start("third")
    assert balances(stage) == [10] * 8


def test_an_owner_whose_files_are_lost_writes_a_checkpoint_of_all() -> None:
    stage = staged()
    busy(stage, rounds=3)
    for name in list(stage.store.files):
        del stage.store.files[name]
    busy(stage, rounds=6)
    del stage.nodes["one"]
    other = stage.start("other")
    assert balances(stage) == [9] * 8
    assert other.steps.begun > 0, "it did not have to read the log from its start"


class Crash(Exception):
    """The node is gone."""


class ToldLate:
    """A ``Saver`` that does its work at once, and says so after a while."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.done: list[tuple[int, Any]] = []

    def save(self, work: Any) -> None:
        self.done.append((self.stage.now_ms + 70, work()))

    def finished(self) -> list[Any]:
        ripe = [result for at_ms, result in self.done if at_ms <= self.stage.now_ms]
        self.done = [each for each in self.done if each[0] > self.stage.now_ms]
        return ripe


class Dying(Stage):
    """One node, which dies at every so many saves, before or after the file is there, and is replaced."""

    def __init__(self) -> None:
        super().__init__(program, interval_ms=20)
        self.draw = Random(7)
        self.deaths = {"a checkpoint": 0, "a merge": 0}
        self.spared = 0
        self.start("life-0")

    def more(self, name: str) -> dict[str, Any]:
        flaky = self.flaky()
        return {
            "store": flaky,
            "compact": compact_here(flaky, segment_bytes=100),
            "new_saver": lambda what: ToldLate(self) if what == "merger" else self.new_saver(what),
        }

    def flaky(self) -> FlakyCheckpoints:
        return FlakyCheckpoints(self.store, lambda what: self.maybe_die(what, ""), self.maybe_die)

    def maybe_die(self, what: str, name: str) -> None:
        merges = any(life.chain.merging for life in self.lives())
        self.spared += what == "save"
        if what == "save" and self.spared > 40 and self.draw.random() < (0.5 if merges else 0.02):
            self.spared = 0
            self.deaths["a merge" if merges else "a checkpoint"] += 1
            raise Crash

    def lives(self) -> list[Any]:
        return [life for driver, _ in self.nodes.values() for life in driver.checkpoints.saved_units.values()]

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            try:
                super().turn()
            except Crash:
                self.nodes.clear()
                self.start(f"life-{sum(self.deaths.values())}")


def test_a_node_may_die_while_it_saves_and_while_it_merges(caplog: pytest.LogCaptureFixture) -> None:
    stage = Dying()
    rounds = 0
    while min(stage.deaths.values()) < 3 or rounds < 40:
        busy(stage, rounds=1)
        rounds += 1
        assert rounds < 400, f"too few deaths: {stage.deaths}"
    assert balances(stage) == [rounds] * 8
    driver = next(iter(stage.nodes.values()))[0]
    assert "are gone" not in caplog.text, "what a merge has made is deleted by nobody"
    for unit in range(SEQUENCERS, SEQUENCERS + program.partitions):
        for saved in driver.claiming.ownership.checkpoints(unit):
            parts, _ = load_file(stage.store, saved.name)
            assert sum(1 for _ in states(stage.store, parts)) == len(parts)


def random_chain(store: MemoryCheckpoints, seed: int) -> tuple[list[FileReference], StatePartition]:
    """Files of random changes, and the partition that they lead to."""
    draw = Random(seed)
    ledger = Ledger(program, 1)
    expected = StatePartition(ledger, 0, id_window=5)
    parts: list[FileReference] = []
    offset = 0
    for epoch in range(draw.randrange(1, 12)):
        keys = draw.sample(range(20), draw.randrange(12))
        items: list[Any] = [("account", f"a{k}", draw.choice([None, b"x" * draw.randrange(30)])) for k in keys]
        if not epoch:
            items = [row for row in items if row[2] is not None]
        fresh = list(range(offset, offset + draw.randrange(6)))
        replies = [ReplyState(0, f"r{n}", b"call", n, n, b"", None) for n in fresh]
        offset += len(fresh)
        order = [(0, min(offset, 8), [(n, f"r{n}") for n in fresh])]
        state = PartitionState(FORMAT_VERSION, 0, 0, 0, epoch, ledger.snapshot(), items, replies, order)
        parts.append(save_file(store, JOB, UNIT, (epoch, 0), tuple(parts), snapshot_bytes(state)))
    expected.restore(restored_state(load_file(store, parts[-1].name)[1], states(store, parts[:-1]), id_window=5))
    return parts, expected


def test_merged_files_lead_to_what_they_were_made_of() -> None:
    for seed in range(60):
        store, draw = MemoryCheckpoints(), Random(seed)
        parts, expected = random_chain(store, seed)
        for _ in range(3):  # also what was merged before, and in parts
            runs = chains.runs_of(parts)
            first = draw.randrange(len(runs))
            behind = draw.randrange(first, len(runs)) + 1
            at, end = (sum(len(run) for run in runs[:each]) for each in (first, behind))
            made = merge_files(
                store, JOB, UNIT, parts[at:end], whole=at == 0, segment_bytes=draw.choice([1, 50, 1 << 20])
            )
            parts = [*parts[:at], *made, *parts[end:]]
        loaded = list(states(store, parts))
        again = StatePartition(Ledger(program, 1), 0, id_window=5)
        again.restore(restored_state(loaded[-1], loaded[:-1], id_window=5))
        assert again.store.items == expected.store.items, f"seed {seed}"
        assert again.replies.changes(whole=True) == expected.replies.changes(whole=True), f"seed {seed}"
        assert again.committed == expected.committed


def test_each_byte_is_merged_few_times() -> None:
    chain: list[FileReference] = []
    written = 0
    for number in range(2_000):
        chain.append(FileReference(f"{number}", 100))
        merged = to_merge(chain)
        if merged:
            size = sum(part.size for part in merged)
            chain = [*chain[: len(chain) - len(merged)], FileReference(f"m{number}", size)]
            written += size
        assert len(chain) < 40
    assert written < 12 * 2_000 * 100
