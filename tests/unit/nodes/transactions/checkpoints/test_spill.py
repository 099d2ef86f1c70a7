"""State beyond memory: a store that spills gives what a dict gives, and keeps no more in memory than it may."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from nodes.settings.settings import load_settings
from nodes.transactions.checkpoints.spill import LmdbSpill, SpillFailed, Spills, spills_of
from tests.sim.memory_spill import MemorySpill
from tests.unit.txn_stage import Stage
from transactional import Context, Operator, Program
from transactional.epochs.messages import RoundBarrier, epoch_messages, reply_message
from transactional.operators import StateKey
from transactional.state.spilling import ENTRY_BYTES, SpillingStore
from transactional.state.store import Store

BUDGET = 50_000


def key_of(draw: Random) -> StateKey:
    number = draw.randrange(2_000)
    long = "é" * 400 if number % 50 == 0 else ""  # more than LMDB takes
    return ("one", "two")[number % 2], f"{number % 7}/{long}{number}"


@pytest.mark.slow
def test_a_store_that_spills_is_a_store(tmp_path: Path) -> None:
    for seed in range(4):
        draw = Random(seed)
        plain, spilling = Store(), SpillingStore(LmdbSpill(str(tmp_path)), lambda: BUDGET)
        for step in range(400):
            keys = [key_of(draw) for _ in range(draw.randrange(40))]
            writes = {key: draw.choice([None, b"v" * draw.randrange(100), b"%d" % step]) for key in keys}
            plain.apply(writes)
            spilling.apply(writes)
            assert spilling.entries_in_memory * ENTRY_BYTES < BUDGET * 1.5
            for key in [key_of(draw) for _ in range(30)]:
                assert spilling.read(key) == plain.read(key), f"seed {seed}, step {step}, {key}"
            if step % 10 == seed:
                operator, prefix = draw.choice(["one", "two"]), draw.choice(["", "3/", "0/é", "0/" + "é" * 390, "5/1"])
                assert spilling.scan(operator, prefix) == plain.scan(operator, prefix), f"seed {seed}, step {step}"
        assert dict(spilling.everything()) == plain.items
        assert spilling.changed == plain.changed


def test_spills_share_the_memory_of_their_node_and_leave_no_file(tmp_path: Path) -> None:
    spills = Spills(str(tmp_path), 600 * ENTRY_BYTES)
    one, other = spills.store(), spills.store()
    for store in (one, other):
        for number in range(1_000):
            store.apply({("it", f"k{number}"): b"v"})
    assert one.entries_in_memory + other.entries_in_memory < 800
    assert all(store.read(("it", f"k{number}")) == b"v" for store in (one, other) for number in range(1_000))
    assert os.listdir(tmp_path) == [], "a node that is killed leaves nothing"
    del store, other
    for number in range(1_000):
        one.apply({("it", f"k{number}"): b"v"})
    assert 200 < one.entries_in_memory < 800, "what one leaves the others may use"


class FullSpill(MemorySpill):
    """One that has no room while ``is_full``, and then cannot be read."""

    is_full = False

    def __init__(self) -> None:
        super().__init__()
        self.get = self._get

    def _get(self, key: StateKey) -> bytes | None:
        self._check()
        return self.held.get(key)

    def write(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> None:
        self._check()
        super().write(rows)

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        self._check()
        return super().scan(operator, prefix)

    def _check(self) -> None:
        if self.is_full:
            raise SpillFailed("no room")


@pytest.mark.parametrize("function", ["size", "sizes", "tries"])
def test_a_full_disk_ends_the_node_and_is_no_outcome_of_a_transaction_whatever_its_function_catches(
    function: str,
) -> None:
    spill = FullSpill()
    stage = Stage(make_program(partitions=1), new_store=lambda: SpillingStore(spill, lambda: 0))
    stage.start("one")
    for number in range(20):
        stage.call("it", f"1/{number}", "put", [9])
    before = stage.log.end_offset(stage.topics.epochs, 0)
    spill.is_full = True
    with pytest.raises(SpillFailed, match="no room"):
        stage.call("it", "1/1", function, request_id="r")
    replies = [reply_message(each) for each in stage.log.poll(stage.topics.replies, 0, 0).values]
    assert not any(reply.id == "r" for each in replies for reply in each.replies)
    cuts = stage.log.poll(stage.topics.epochs, 0, before).values
    assert cuts and not any(isinstance(found, RoundBarrier) for each in cuts for found in epoch_messages(each))


def test_settings_say_whether_and_where_state_is_spilled(tmp_path: Path) -> None:
    plain = load_settings(environ={}, directory=tmp_path)
    assert spills_of(plain) is None
    given = [f"node.state_path={tmp_path}/there", "node.state_memory_mb=1"]
    spills = spills_of(load_settings(definitions=given, environ={}, directory=tmp_path))
    assert spills is not None
    spills.store().apply({("it", "k"): b"v"})
    assert (tmp_path / "there").is_dir()


def make_program(partitions: int = 2) -> Program:
    it = Operator("it", partitions=partitions, colocate="/")

    @it.register
    async def put(ctx: Context, size: int) -> int:
        ctx.put("x" * size)
        return size

    @it.register
    async def size(ctx: Context) -> int:
        return len(ctx.get(""))

    @it.register
    async def sizes(ctx: Context) -> list[int]:
        return [len(value) for _, value in ctx.scan(ctx.key.split("/")[0] + "/")]

    @it.register
    async def tries(ctx: Context) -> list[int]:
        try:
            return [len(ctx.get(""))]
        except Exception:
            return [-1]

    return Program("spilled", [it])


@pytest.mark.slow
def test_a_job_with_state_beyond_its_memory_answers_and_is_taken_over(tmp_path: Path) -> None:
    program, spills = make_program(), Spills(str(tmp_path), 200_000)
    stage = Stage(program, interval_ms=50, new_store=spills.store)
    stage.start("one")
    for number in range(200):
        assert stage.call("it", f"{number % 5}/{number}", "put", [5_000 + number]) == 5_000 + number
    for life in range(2):
        found = [stage.call("it", f"{number % 5}/{number}", "size") for number in range(200)]
        assert found == list(range(5_000, 5_200))
        assert sorted(stage.call("it", "3/", "sizes")) == list(range(5_003, 5_200, 5))
        driver = stage.nodes[("one", "other")[life]][0]
        stores = [each.store for each in driver.node.partitions.values()]
        held = sum(each.entries_in_memory * 5_000 for each in stores if isinstance(each, SpillingStore))
        assert 0 < held < 300_000, "of a million"
        if not life:
            stage.turn(40)
            del stage.nodes["one"], driver, stores
            stage.start("other")
