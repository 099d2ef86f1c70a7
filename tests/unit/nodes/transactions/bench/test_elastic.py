"""Migrations and upgrades of a measured run: their figures, and replies that show which version has run."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.cli.txn.bench_changes import changes_of, lines
from nodes.transactions.bench.elastic import Migrated, Repartition, Upgrade, Upgraded, elastic_figures, of_wrong_version
from nodes.transactions.bench.fleet import Change
from nodes.transactions.bench.reply_times import Interval, ReplyTimes
from nodes.transactions.layouts.repartitioning import Repartitioned
from transactional import Aborted
from transactional.requests.requests import WireRequest
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import RequestHistory
from transactional.workloads.next_version import MARK

RATE = 100
DUE = [k / RATE for k in range(10 * RATE)]
TIMES = ReplyTimes(DUE, [4.3 if 4.0 <= each < 4.3 else each + 0.005 for each in DUE])
TOLD = Repartitioned(
    ["account"], 1, 4, 6, "stop", "least", 6, 300, 700, 9_000, 5, 0.9, downtime_ms=250, resumed=False
)  # fmt: skip
VERSIONS = {"before": {"code": "aa"}, "after": {"code": "bb"}, "since_epoch": 77, "took_s": 0.5}


def test_a_migration_has_the_figures_of_its_outcome_and_those_of_the_client() -> None:
    found = elastic_figures([Migrated(TOLD, Interval(3.9, 5.0))], TIMES)
    (migration,) = found["migrations"]  # type: ignore[misc]
    assert migration == {
        "operators": ["account"], "from": 4, "to": 6, "mode": "stop", "spread": "least", "keys": 700, "bytes": 9_000,
        "replies": 5, "took_s": pytest.approx(1.1), "downtime_ms": pytest.approx(305, abs=11), "epochs_stopped_ms": 250,
        "least_share": pytest.approx(0.7, abs=0.02), "resumed": False,
    }  # fmt: skip
    assert found["least_share"] == migration["least_share"] and found["upgrades"] == []
    assert found["during"]["p99"] > 250 > found["before"]["p99"] < 10 > found["after"]["p99"]  # type: ignore[index]


def test_the_least_share_of_all_migrations_is_that_of_the_worst() -> None:
    ended = [Migrated(TOLD, Interval(1.0, 2.0)), Migrated(TOLD, Interval(4.0, 5.0))]
    found = elastic_figures(ended, TIMES)
    assert found["least_share"] == pytest.approx(0.7, abs=0.02)


def test_a_run_without_changes_has_none_of_their_figures() -> None:
    assert elastic_figures([], TIMES) == {
        "migrations": [], "before": None, "during": None, "after": None, "least_share": None, "upgrades": [],
    }  # fmt: skip


def test_an_upgrade_has_figures_of_its_own_and_belongs_to_no_migration() -> None:
    found = elastic_figures([Upgraded(VERSIONS, Interval(3.5, 4.5))], TIMES)
    (upgrade,) = found["upgrades"]  # type: ignore[misc]
    assert (upgrade["from"], upgrade["to"], upgrade["since_epoch"], upgrade["took_s"]) == ("aa", "bb", 77, 0.5)
    assert upgrade["downtime_ms"] == pytest.approx(305, abs=11) and upgrade["during"]["p99"] > 200
    assert found["migrations"] == [] and found["during"] is None and found["least_share"] is None


def test_text_shows_a_line_for_each_change_and_phase() -> None:
    ended = [Migrated(TOLD, Interval(3.9, 5.0)), Upgraded(VERSIONS, Interval(6.0, 6.5))]
    shown = {line.split("  ")[0]: line for line in lines({"workload": "ycsb-t"} | elastic_figures(ended, TIMES))}
    assert list(shown) == ["workload", "migration", "before", "during", "after", "least_share", "upgrade"]
    assert "account: 4 to 6 partitions (stop, least), 700 keys (9000 bytes) in 1.10 s" in shown["migration"]
    assert "70 % of the replies due in the worst second" in shown["migration"] and "p99 5.0 ms" in shown["before"]
    assert "aa to bb from epoch 77 on, in 0.50 s" in shown["upgrade"]
    assert list(lines({"workload": "x"} | elastic_figures([], TIMES))) == [f"{'workload':<24}x"]


def test_changes_of_all_kinds_happen_in_the_order_of_their_shares() -> None:
    moves = ["all:6@0.4", "account:5@0.2"]
    found = changes_of(WORKLOADS["ycsb-t"], 3, ["1@0.3"], [0.5], [0.1], moves, ("all", "online"), [0.45])
    assert found == (
        Change(0.1, "remove-node"),
        Repartition(0.2, ("account",), 5, "all", "online"),
        Change(0.3, "kill", 1),
        Repartition(0.4, ("account",), 6, "all", "online"),
        Upgrade(0.45, "transactional.workloads.partitioned:ycsb-t/next/4"),
        Change(0.5, "add-node"),
    )


NEXT = {MARK: 7}


@pytest.mark.parametrize(
    ("outcome", "epoch", "said"),
    [
        (7, 9, ""),
        (NEXT, 10, ""),
        (Aborted("NotEnough", ("a1",)), 10, ""),
        (7, 10, "r of epoch 10 has a reply of the first version, and the next one holds from epoch 10 on"),
        (
            {"next version": 7},
            9,
            "r of epoch 9 has a reply of the next version, and the next one holds from epoch 10 on",
        ),
    ],
)
def test_a_reply_of_another_version_than_its_epoch_has_is_a_violation(outcome: Any, epoch: int, said: str) -> None:
    requests = [
        WireRequest("r", "account", "a1", "transfer", ["a2", 1]),
        WireRequest("s", "account", "a1", "read"),
    ]
    history = RequestHistory(requests, {"r": outcome, "s": NEXT})
    assert of_wrong_version(history, {"r": epoch, "s": 99}, 10) == ([said] if said else [])
