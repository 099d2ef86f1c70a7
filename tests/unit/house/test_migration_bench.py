"""The bench of migrations: the runs that it makes, and its table."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from deploy.bench.txn_migration import HEAD, markdown, medians, points, shown

OPTIONS = Namespace(log="embedded", nodes=2, seconds=9, spread="all", records=70, rate=30, warehouses=3, scale=0.1,
                    tpcc_rate=5, partitions="16,12", modes="online,stop", workloads="ycsb-m,tpcc")  # fmt: skip
MIGRATION = {"keys": 50, "bytes": 2_000_000, "took_s": 1.5, "downtime_ms": 400.0, "epochs_stopped_ms": 250,
             "mode": "stop", "least_share": 0.625}  # fmt: skip
RUN: dict[str, Any] = {
    "migrations": [MIGRATION], "before": {"p99": 20.0}, "during": {"p99": 350.0}, "after": None, "load": 0.5,
}  # fmt: skip


def test_both_workloads_move_from_one_number_of_partitions_to_the_other_and_back() -> None:
    found = dict(points(OPTIONS))
    moves = [f"{workload} {mode} {ways}" for workload in ("ycsb-m", "tpcc") for ways in ("16 to 12", "12 to 16")
             for mode in ("online", "stop")]  # fmt: skip
    assert list(found) == moves
    assert found["tpcc stop 12 to 16"] == [
        "tpcc", "--size", "3", "--scale", "0.1", "--rate", "5", "--log", "embedded", "--nodes", "2", "--seconds", "9",
        "--spread", "all", "--partitions", "12", "--repartition", "all:16@0.3", "--mode", "stop",
    ]  # fmt: skip


def test_a_run_has_its_figures_in_the_order_of_the_table_and_what_is_not_known_is_none() -> None:
    assert shown(RUN) == [50, 2.0, 1.5, 400.0, 250, 62.5, 20.0, 350.0, None, 8.0, 0.5]
    resumed = {**RUN, "migrations": [{**MIGRATION, "keys": None, "bytes": None, "epochs_stopped_ms": None}]}
    assert shown(resumed) == [None, None, 1.5, 400.0, None, 62.5, 20.0, 350.0, None, None, 0.5]
    assert len(shown(RUN)) == len(HEAD) - 3
    online = {**RUN, "migrations": [{**MIGRATION, "mode": "online"}]}
    assert shown(online)[9] == pytest.approx(2.0 / 1.5), "it copies all the time that it takes"
    assert medians([shown(RUN), shown(resumed)])[:5] == [50, 2.0, 1.5, 400.0, 250]


@pytest.mark.parametrize(("load", "busy"), [(0.0, False), (400.0, True)])
def test_times_of_a_busy_machine_are_marked_as_such(load: float, busy: bool) -> None:
    text = markdown([("tpcc stop 12 to 16", shown({**RUN, "load": load}))], "kafka", 3)
    assert "| tpcc | stop | 12 to 16 | 50.0 | 2.0 | 1.5 | 400 | 250 | 62.5 | 20.0 | 350 | - | 8.0 |" in text
    assert "Log kafka, medians of 3." in text and ("On a busy machine" in text) == busy
