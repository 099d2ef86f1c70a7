"""Decisions of the autoscaler, one rule each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodes.transactions.autoscaling.deciding import Action, Decision, Limits, Sample, decide

LIMITS = Limits(min_nodes=1, max_nodes=6, min_partitions=2, max_partitions=16, p99_ms=100, lag_s=2, cooldown_s=60)
SKEWED: dict[str, Any] = {"hottest": 3, "skew": 3.0, "hottest_key": 0.2, "coldest": 1}


def samples(*busy: float | None, nodes: int = 2, partitions: int = 8, **more: Any) -> list[Sample]:
    return [
        Sample(at_ms=1_000_000 + 5_000 * number, nodes=nodes, partitions=partitions, busy=each, **more)
        for number, each in enumerate(busy)
    ]


def decided(*busy: float | None, last: Decision | None = None, **more: Any) -> tuple[str, int, int]:
    action = decide(samples(*busy, **more), LIMITS, last)
    return action.kind, action.nodes, action.partitions


def test_busy_nodes_in_all_samples_bring_as_many_as_make_them_less_busy() -> None:
    assert decided(0.9, 0.95, 0.9) == ("nodes", 3, 8)
    assert decided(1.0, 1.0, 1.0) == ("nodes", 4, 8), "twice as many at most"
    assert decided(0.9, 0.7, 0.9) == ("none", 2, 8)
    assert decided(0.9, 0.9) == ("none", 2, 8)
    assert decided(1.0, 1.0, 1.0, nodes=6) == ("none", 6, 8)


def test_lag_and_p99_count_too_unless_nodes_are_idle() -> None:
    assert decided(0.6, 0.6, 0.6, lag_s=3.0) == ("nodes", 3, 8)
    assert decided(0.6, 0.6, 0.6, p99_ms=101.0) == ("nodes", 3, 8)
    action = decide(samples(0.2, 0.2, 0.2, p99_ms=101.0), LIMITS)
    assert action.kind == "none" and "more would not help" in action.reason
    assert decided(None, None, None, lag_s=30.0) == ("nodes", 4, 8), "none reports: perhaps none can"


def test_a_node_that_would_have_no_partition_brings_partitions_first() -> None:
    assert decided(0.9, 0.9, 0.9, partitions=2) == ("repartition", 2, 6)
    assert decide(samples(0.9, 0.9, 0.9, nodes=6, partitions=6), LIMITS).kind == "none"
    narrow = Limits(min_nodes=1, max_nodes=6, min_partitions=2, max_partitions=2, p99_ms=100, lag_s=2)
    assert "number is at its limit" in decide(samples(0.9, 0.9, 0.9, partitions=2), narrow).reason


def test_a_hot_partition_is_split_before_nodes_are_added() -> None:
    assert decide(samples(0.9, 0.9, 0.9, **SKEWED), LIMITS) == Action(
        "split", 2, 9,
        "nodes busy for 90% of the time, and 80% are allowed; partition 3 has 3.0 times its share of the work", 3, 8,
    )  # fmt: skip
    key: dict[str, Any] = SKEWED | {"hottest_key": 0.8}
    less: dict[str, Any] = SKEWED | {"skew": 1.9}
    cold = decide(samples(0.9, 0.9, 0.9, **SKEWED, coldest_part=0.4), LIMITS)
    assert (cold.kind, cold.partitions, cold.partition, cold.target) == ("split", 8, 3, 1)
    assert decided(0.9, 0.9, 0.9, **key) == ("nodes", 3, 8), "one key cannot be divided"
    assert decided(0.9, 0.9, 0.9, **less) == ("nodes", 3, 8)
    assert decided(0.9, 0.9, 0.9, **SKEWED, partitions=16) == ("nodes", 3, 16)
    assert decided(0.4, 0.4, 0.4, **SKEWED, p99_ms=20.0) == ("none", 2, 8), "nothing is too much"


def test_little_work_takes_a_node_away_and_then_partitions() -> None:
    assert decided(0.2, 0.2, 0.2) == ("nodes", 1, 8)
    assert decided(0.3, 0.2, 0.2) == ("none", 2, 8), "one node would be busy for 60 %"
    assert decided(0.2, 0.2, 0.2, lag_s=1.5) == ("none", 2, 8)
    assert decided(0.2, 0.2, 0.2, p99_ms=60.0) == ("none", 2, 8)
    assert decided(None, 0.2, 0.2) == ("none", 2, 8)
    assert decided(0.2, 0.2, 0.2, nodes=1, partitions=8) == ("repartition", 1, 2)
    assert decided(0.2, 0.2, 0.2, nodes=1, partitions=4) == ("none", 1, 4)


def test_what_is_outside_of_the_limits_comes_back() -> None:
    assert decided(0.6, 0.6, 0.6, nodes=0) == ("nodes", 1, 8)
    assert decided(0.6, 0.6, 0.6, nodes=9) == ("nodes", 6, 8)
    assert decided(0.6, 0.6, 0.6, partitions=20) == ("repartition", 2, 16)
    assert decided(0.6, 0.6, 0.6, partitions=1) == ("repartition", 2, 2)


def test_nothing_is_decided_while_nodes_partitions_or_a_layout_change() -> None:
    assert decided(0.9, 0.9, 0.9, settled=False) == ("none", 2, 8)
    changing = [*samples(0.9, 0.9, nodes=3), *samples(0.9)]
    assert decide(changing, LIMITS).reason == "nodes or partitions change"
    assert decide([], LIMITS).kind == "none"


def test_an_opposite_decision_cools_down_and_another_of_the_same_kind_needs_new_samples() -> None:
    (before,) = samples(0.9)
    action = Action("nodes", 3, 8, "")
    last = Decision(number=4, by="other", at_ms=before.at_ms - 45_001, action=action, sample=before)
    three: dict[str, Any] = {"nodes": 3, "last": last}
    assert decided(0.2, 0.2, 0.2, **three) == ("none", 3, 8), "55 s have passed"
    assert (
        "decision 4 was the opposite, and cools down for 5 s"
        in decide(samples(0.2, 0.2, 0.2, nodes=3), LIMITS, last).reason
    )
    assert decided(0.2, 0.2, 0.2, 0.2, **three) == ("nodes", 2, 8)
    assert decided(0.9, 0.9, 0.9, **three) == ("nodes", 5, 8)
    just = Decision(number=4, by="other", at_ms=before.at_ms, action=action, sample=before)
    assert decided(0.9, 0.9, 0.9, nodes=3, last=just) == ("none", 3, 8), "two samples since"
    assert decided(0.9, 0.9, 0.9, 0.9, nodes=3, last=just) == ("nodes", 5, 8)


def test_a_node_that_is_on_its_way_is_not_asked_for_again_for_a_minute() -> None:
    (before,) = samples(0.9)
    up = Decision(number=4, by="other", at_ms=before.at_ms - 49_999, action=Action("nodes", 4, 8, ""), sample=before)
    found = decide(samples(0.9, 0.9, 0.9), LIMITS, up)
    assert (found.kind, found.reason) == ("none", "decision 4 is being carried out"), "59,999 ms have passed"
    assert decided(0.9, 0.9, 0.9, nodes=3, last=up) == ("none", 3, 8), "one of two is there"
    assert decided(0.9, 0.9, 0.9, 0.9, last=up)[0] == "nodes", "it has taken more than a minute"
    assert decided(0.9, 0.9, 0.9, nodes=4, last=up)[1] > 4, "all are there, and too few"
    assert decided(0.9, 0.9, 0.9, nodes=1, last=up) == ("nodes", 2, 8), "one was lost that was there"
    down = msgspec.structs.replace(up, action=Action("nodes", 1, 8, ""))
    assert decided(0.1, 0.1, 0.1, last=down) == ("none", 2, 8), "it is leaving"
    more = msgspec.structs.replace(up, action=Action("repartition", 2, 12, ""))
    assert decided(0.9, 0.9, 0.9, last=more) == ("none", 2, 8), "nodes have not begun with the layout"


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_nodes": 0}, {"max_nodes": 0}, {"min_partitions": 17}, {"samples": 0}, {"p99_ms": 0}, {"lag_s": -1},
        {"skew": 1}, {"busy_below": 0.9}, {"busy_above": 1.1}, {"cooldown_s": -1},
    ],
)  # fmt: skip
def test_limits_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    given = {"min_nodes": 1, "max_nodes": 6, "min_partitions": 2, "max_partitions": 16, "p99_ms": 100, "lag_s": 2}
    with pytest.raises(ValueError, match=r"expected|below"):
        Limits(**(given | wrong))  # type: ignore[arg-type]
