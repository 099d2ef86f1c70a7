"""CPU of partitions in heartbeats (nodes/transactions/layouts/cpu.py), and in what is shown of a layout."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from nodes.cli.txn.layout import lines
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership.commands import LAYOUT_DONE
from nodes.transactions.layouts.cpu import RecentCpu, bucket_shares, layout_held_ms, recent_cpu
from nodes.transactions.layouts.halves import Bucket
from nodes.transactions.layouts.heat import KeyPart, Recent, Work
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.layouts.shown import heat_shown, layout_shown
from nodes.transactions.metrics.node import cpu_seconds, cpu_stats
from nodes.transactions.topics import create_topics
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional.layout import Group, Layout
from transactional.sampled_cpu import EVERY

GROUP = Group(2, None)
LAYOUT = Layout.first_of({GROUP})
KEYS = [[key for key in map(str, range(40)) if GROUP.bucket(key) % 2 == home][:2] for home in range(2)]
"""Two of each partition."""


def heard(*heartbeats: tuple[int, str, Mapping[str, float]]) -> RecentCpu | None:
    """Of heartbeats at these ms."""
    now_ms = [0]
    log = MemoryLog(clock_ms=lambda: now_ms[0])
    topics = create_topics(log, counters("cpu", 2), 1)
    log.append(topics.heartbeats, 0, [b"garbage"])
    for at_ms, node, stats in heartbeats:
        now_ms[0] = at_ms
        log.append(topics.heartbeats, 0, [m.encode(m.Heartbeat(0, node, at_ms, stats=dict(stats)))])
    return recent_cpu(log, topics)


def test_what_was_spent_between_heartbeats_counts_also_of_partitions_that_have_changed_hands() -> None:
    found = heard(
        (1_000, "a", {"cpu/0": 7.0, "cpu/1": 1.0, "busy": 0.5}),
        (2_000, "b", {"cpu/2": 0.0}),
        (4_000, "a", {"cpu/0": 7.5, "cpu/1": 1.25}),
        (5_000, "a", {"cpu/0": 8.0}),  # it has given partition 1 away
        (5_000, "b", {"cpu/2": 0.0, "cpu/1": 9.0}),
        (6_000, "b", {"cpu/2": 0.0, "cpu/1": 9.75, "cpu/x": 3.0, "cpu/": 3.0}),
        (9_000, "c", {"busy": 0.1}),
    )
    assert found == RecentCpu(5.0, {0: 0.2, 1: 0.2, 2: 0.0})
    assert (
        found is not None
        and found.total == pytest.approx(0.4)
        and [found.share(each) for each in range(4)] == [0.5, 0.5, 0, 0]
    )


@pytest.mark.parametrize("heartbeats", [(), ((5, "a", {"busy": 1.0}),), ((5, "a", {"cpu/0": 1.0}),)])
def test_without_two_reports_nothing_is_known(heartbeats: tuple[tuple[int, str, dict[str, float]], ...]) -> None:
    assert heard(*heartbeats) is None


def shown(heats: list[list[int]], cores: dict[int, float]) -> list[tuple[str, float | None, bool]]:
    """Key, share of CPU and verdict, in order; ``heats`` are calls of two keys of each partition."""
    calls = {KeyPart(0, key): Work(n) for home, ns in enumerate(heats) for key, n in zip(KEYS[home], ns, strict=True)}
    found = heat_shown(Recent(1, 9, 1.0, calls), LAYOUT, [["count"]], RecentCpu(10.0, cores)).hottest
    return [(each.key, each.cpu_share, each.too_hot) for each in found]


def test_keys_that_are_too_hot_by_cpu_come_first_and_the_others_by_heat() -> None:
    (a, b), (c, d) = KEYS
    assert shown([[40, 35], [30, 10]], {0: 0.1, 1: 0.9}) == [
        (c, pytest.approx(0.675), True),  # calls here cost more than ten times as much
        (a, pytest.approx(0.1 * 40 / 75), False),
        (b, pytest.approx(0.1 * 35 / 75), False),
        (d, pytest.approx(0.225), False),
    ]


def test_keys_of_an_idle_job_are_not_too_hot_for_what_an_epoch_costs() -> None:
    found = shown([[6, 6], [5, 0]], {0: 0.01, 1: 0.03})
    assert [each for each in found if each[2]] == [] and found[2][:2] == (KEYS[1][0], pytest.approx(0.75))


def test_a_layout_shows_cpu_where_nodes_report_it() -> None:
    made = Stage(counters("cpu", 2))
    made.start("a")
    made.turn(10)
    made.call("count", KEYS[0][0], "add", [1])
    made.turn(20)
    requests = Repartitioning(made.log, made.topics)
    found = layout_shown("cpu", requests, None, RecentCpu(41.0, {0: 0.375, 1: 0.125}))
    assert [(row.cpu_share, row.cpu_cores) for row in found.partitions] == [(0.75, 0.375), (0.25, 0.125)]
    text = "\n".join(lines(found))
    assert "cpu: 0.50 cores over 41 s, most of it for partition 0" in text and "about 75.0% of CPU" in text
    without = layout_shown("cpu", requests, None)
    assert msgspec.to_builtins(without)["cpu_seconds"] is None and without.partitions[0].cpu_share is None
    assert "cpu:" not in "\n".join(lines(without))


def test_a_node_reports_owned_partitions_and_nothing_without_a_clock() -> None:
    made = Stage(counters("cpu", 2))
    driver = made.start("a")
    made.turn(20)
    assert cpu_seconds(driver) == {} and len(driver.node.owned_partitions()) == 2 and SEQUENCERS
    measured = CpuStage(counters("cpu", 2))
    driver = measured.start("a")
    measured.turn(10 * EVERY)
    spent = cpu_seconds(driver)
    assert set(spent) == {0, 1} and all(each > 0 for each in spent.values())
    driver.steps.cpu.ns[7] = 5  # type: ignore[union-attr]  # it owned that one once
    assert set(cpu_seconds(driver)) == {0, 1}


class CpuStage(Stage):
    """Each reading of the clock is a millisecond later."""

    def more(self, name: str) -> dict[str, object]:
        ticks = iter(range(0, 10**12, 10**6))
        from nodes.transactions.steps import Clocks

        return {"clocks": Clocks(lambda: self.now_ms, lambda: 1_000_000 + self.now_ms, lambda: next(ticks))}


def test_hot_buckets_are_those_of_the_newest_heartbeat_of_the_owner() -> None:
    found = heard(
        (1_000, "a", {"cpu/0": 1.0, "hot/0/count/7": 0.5, "hot/0/a/b/9": 0.25, "hot/3/count/1": 0.5}),
        (2_000, "b", {"cpu/1": 1.0, "hot/1/count/2": 0.75, "hot/1/count/x": 1.0, "hot/1": 1.0}),
        (3_000, "a", {"cpu/0": 2.0, "hot/0/count/8": 0.125}),
        (4_000, "b", {"cpu/1": 1.5}),
    )
    assert found is not None and found.hot == {0: {("count", 8): 0.125}}
    assert heard((1_000, "a", {"cpu/0": 1.0, "hot/0/a/b/9": 0.25}), (2_000, "b", {"cpu/1": 1.0})).hot == {  # type: ignore[union-attr]
        0: {("a/b", 9): 0.25}
    }


def test_costly_buckets_have_what_was_measured_and_the_others_the_rest_by_heat() -> None:
    (a, b), (c, d) = ([Bucket(0, GROUP.bucket(key)) for key in keys] for keys in KEYS)
    hot = {0: {("count", a.number): 0.6, ("count", c.number): 0.1, ("gone", 3): 0.1}}
    cpu = RecentCpu(10.0, {0: 0.9, 1: 0.1}, hot)
    found = bucket_shares(cpu, LAYOUT, {"count": GROUP}, {a: 10, b: 30, c: 5})
    # Of partition 0 a fifth is of buckets that do not live there, a fifth is divided by heat.
    assert found == {
        a: pytest.approx(0.9 * 0.65 / 0.8), b: pytest.approx(0.9 * 0.15 / 0.8), c: pytest.approx(0.1),
    }  # fmt: skip
    assert bucket_shares(cpu, LAYOUT, {"count": GROUP}, {}) == {a: pytest.approx(0.9)}, "nothing is known of the rest"
    assert d not in found


@pytest.mark.parametrize(("seconds", "cores", "telling"), [(3.0, 0.1, True), (2.9, 0.5, False), (60.0, 0.09, False)])
def test_partitions_are_compared_by_cpu_if_there_is_enough_of_it(seconds: float, cores: float, telling: bool) -> None:
    cpu = RecentCpu(seconds, {0: cores / 2, 1: cores / 2})
    assert cpu.compares(2) == telling and not cpu.compares(3), "one is of a node that reports none"


def test_only_heartbeats_since_the_newest_layout_count() -> None:
    now_ms = [1_000]
    log = MemoryLog(clock_ms=lambda: now_ms[0])
    topics = create_topics(log, counters("cpu", 2), 1)
    assert layout_held_ms(log, topics) == 0
    for at_ms, seconds in ((1_000, 1.0), (2_000, 5.0), (4_000, 6.0)):
        now_ms[0] = at_ms
        log.append(topics.heartbeats, 0, [m.encode(m.Heartbeat(0, "a", at_ms, stats={"cpu/0": seconds}))])
    for now_ms[0], name in ((1_500, LAYOUT_DONE), (2_500, "retry")):
        log.append(topics.control, 0, [b"garbage", m.encode(m.Command(1, name, "{}"))])
    assert layout_held_ms(log, topics) == 1_500
    assert recent_cpu(log, topics, 1_500) == RecentCpu(2.0, {0: 0.5})


def test_a_key_of_costly_calls_is_too_hot_though_it_has_few() -> None:
    (a, b), _ = KEYS
    calls = {KeyPart(0, a): Work(5), KeyPart(0, b): Work(95), KeyPart(0, KEYS[1][0]): Work(100)}
    hot = {0: {("count", GROUP.bucket(a)): 0.9}}
    (first, *_) = heat_shown(
        Recent(1, 9, 1.0, calls), LAYOUT, [["count"]], RecentCpu(10.0, {0: 0.9, 1: 0.1}, hot)
    ).hottest
    assert (first.key, first.too_hot, first.cpu_share) == (a, True, pytest.approx(0.9 * (0.9 + 0.1 * 0.05)))


@pytest.mark.slow
def test_a_node_names_buckets_of_costly_calls_in_its_heartbeats() -> None:
    measured = CpuStage(counters("cpu", 2))
    driver = measured.start("a")
    measured.turn(20)
    for _ in range(20 * EVERY):
        measured.call("count", KEYS[0][0], "add", [1])
    hot = [name for name in cpu_stats(driver) if name.startswith("hot/")]
    assert hot == [f"hot/0/count/{GROUP.bucket(KEYS[0][0])}"]
    driver.report_figures({"busy": 0.5, **dict.fromkeys(hot, 0.5)}, ("cpu/", "hot/"))
    driver.report_figures({"cpu/1": 2.0}, ("cpu/", "hot/"))
    assert driver.heartbeats.figures == {"busy": 0.5, "cpu/1": 2.0}, "no bucket that is no longer hot"
