"""The bench of ways to move keys online: each ends with every key where it lives and every invariant kept."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.bench.candidates.arriving_store import ArrivingStore
from deploy.bench.candidates.moves import Setting, first_rows, measured
from deploy.bench.candidates.virtual_fleet import LogTimes
from deploy.bench.transactions.candidates import HEAD, medians, table
from transactional.layout import Layout, spread_all
from transactional.layout_history import Change
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.partitioned import with_partitions


def run(name: str, size: int, way: str, *, rate: float = 100.0, batch_bytes: int = 1 << 18) -> dict[str, Any]:
    workload, shape = with_partitions(WORKLOADS[name], 2), WorkloadShape(size, scale=0.001)
    setting = Setting(
        workload, shape, rate, way, (2, 3), before_s=0.3, after_s=0.3, batch_bytes=batch_bytes, log=LogTimes(2.0, 200.0)
    )
    return measured(setting, workload.program, first_rows(workload, shape))


@pytest.mark.parametrize("way", ["stop", "copies", "keys", "groups"])
def test_each_way_moves_all_and_keeps_the_invariants(way: str) -> None:
    found = run("ycsb-m", 300, way, batch_bytes=4_096)
    assert found["took_s"] is not None and found["moved_MB"] > 0, "else the move has not ended"
    is_on_demand = way in ("keys", "groups")
    assert (found["most_rounds"] == 3) == is_on_demand, "a requested key comes two rounds later, a copied one is there"
    assert (found["requests"] > 0) == is_on_demand
    if way == "groups":
        assert found["requested_rows"] > found["requests"], "a request brings neighbours"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["keys", "groups"])
def test_transactions_of_many_keys_that_are_requested_one_after_the_other(way: str) -> None:
    found = run("tpcc", 3, way, rate=30.0, batch_bytes=2_048)
    assert found["took_s"] is not None
    assert found["most_rounds"] > 3 if way == "keys" else found["requested_rows"] > 100


def test_a_scan_waits_for_its_whole_group_however_keys_are_requested() -> None:
    found = run("ycsb-e", 400, "keys", batch_bytes=4_096)
    assert found["requested_rows"] > found["requests"] > 0


def test_a_row_that_was_deleted_or_is_here_is_no_more_replaced_by_an_older_one_of_a_batch() -> None:
    operators = with_partitions(WORKLOADS["ycsb-m"], 2).program.operators
    first = Layout.first(operators)
    after = first.changed({each.group: spread_all(each.homes, 3) for each in first.groups})
    placements = first.placement(operators), after.placement(operators)
    store, key = ArrivingStore(), next(k for k in map(str, range(100)) if placements[1].place("record", k) == 2)
    store.number, store.change = 2, Change(*placements, (0, 1))
    assert store.wanted("record", key, "read") == ("record", key)
    store.arrive_batch([(("record", key), b"old")])
    assert store.wanted("record", key, "read") is None
    store.apply({("record", key): None})
    store.arrive_batch([(("record", key), b"old")])
    assert store.read(("record", key)) is None and store.wanted("record", key, "read") is None


def test_the_table_has_medians_of_what_is_known() -> None:
    figures = {name: 1.0 for name in HEAD if name not in ("workload", "way")}
    runs = [{"workload": "w", "way": "keys", **figures, "took_s": took} for took in (3.0, None, 1.0, 2_000.0)]
    (found,) = medians(runs)
    assert found["took_s"] == 3.0
    assert table([found]).splitlines()[2].startswith("| w | keys | 1.0 | 1.0 | 1.0 | 3.0 |")
    assert table([{**found, "took_s": None}]).splitlines()[2].startswith("| w | keys | 1.0 | 1.0 | 1.0 | - |")
