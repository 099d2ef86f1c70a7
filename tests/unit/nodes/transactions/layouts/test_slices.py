"""Moves whose steps look through a few keys each, of state in memory and of spilled state: no key is left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from nodes.transactions.layouts.repartitioning import Repartitioning
from tests.sim.memory_spill import MemorySpill
from tests.unit.txn_stage import NewStore, Stage, counters
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

KEYS = [f"k{number}" for number in range(40)]


def spilling() -> SpillingStore:
    return SpillingStore(MemorySpill(), lambda: 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("new_store", [Store, spilling])
@pytest.mark.parametrize("mode", ["stop", "online"])
@pytest.mark.parametrize("rows", [1, 7])
def test_all_keys_move_in_slices_of_few_rows(rows: int, mode: Literal["stop", "online"], new_store: NewStore) -> None:
    made = Stage(counters("slices", 2), new_store=new_store)
    made.config = replace(made.config, slice_rows=rows)
    made.start("a")
    made.start("b")
    made.turn(200)
    for key in KEYS:
        made.call("count", key, "add", [1])
    requests = Repartitioning(made.log, made.topics, clock_s=made.clock_s)
    for to in (5, 1, 3):
        proposed, told = requests.request(["count"], to, "all", mode)
        moved = requests.wait(proposed, told, 60).keys
        assert moved is not None and moved > 2 * rows, "by several slices"
    assert [made.call("count", key, "add", [1]) for key in KEYS] == [2] * len(KEYS)
