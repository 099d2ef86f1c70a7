"""An autoscaler on a job in memory: what it samples, and that one decision is carried out once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodes.log.contract import LogFull
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership.commands import AUTOSCALE
from nodes.transactions.autoscaling.autoscaler import Autoscaler, Outcome, decisions_of, operators_to_scale
from nodes.transactions.autoscaling.deciding import Limits
from nodes.transactions.autoscaling.sampling import Sampler
from nodes.transactions.layouts.repartitioning import Repartitioning
from tests.unit.txn_stage import Stage, counters
from transactional import Operator
from transactional.layout import Group, Layout

JOB = "scaled"
GROUP = Group(2, None)


class Provider:
    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def scale(self, nodes: int, alive: int) -> None:
        self.asked.append((nodes, alive))

    def check(self) -> None: ...

    def close(self) -> None: ...


def stage(*names: str) -> Stage:
    def new_log(**given: Any) -> MemoryLog:
        return MemoryLog(clock_ms=lambda: made.now_ms if begun else 0, on_wait=lambda seconds: made.turn(20))

    begun = False
    made = Stage(counters(JOB, 2), new_log=new_log)
    begun = True
    for name in names:
        made.start(name)
    made.turn(20)
    return made


def limits(nodes: int = 1, partitions: tuple[int, int] = (2, 2)) -> Limits:
    return Limits(
        min_nodes=nodes, max_nodes=4, min_partitions=partitions[0], max_partitions=partitions[1],
        p99_ms=1000, lag_s=2, samples=2,
    )  # fmt: skip


def scaler(made: Stage, given: Limits, provider: Provider | None) -> Autoscaler:
    return Autoscaler(made.log, made.topics, given, provider, made.store, lambda: made.now_ms)


def test_a_sample_has_nodes_busy_shares_latency_and_skew_from_the_log() -> None:
    made = stage("a", "b")
    sampler = Sampler(made.log, made.topics, Repartitioning(made.log, made.topics), lambda: made.now_ms)
    for (driver, _), busy in zip(made.nodes.values(), (0.25, 0.75), strict=True):
        driver.report_figures({"busy": busy})
    key = next(key for key in map(str, range(99)) if Operator("count", partitions=2).partition_of(key) == 1)
    for _ in range(30):
        made.call("count", key, "add", [1])
    made.turn(20)
    found = sampler.take()
    assert (found.nodes, found.partitions, found.busy, found.settled, found.lag_s) == (2, 2, 0.5, True, 0.0)
    assert found.p99_ms is not None and 0 < found.p99_ms <= 500
    assert (found.hottest, found.skew, found.hottest_key, found.coldest, found.coldest_part) == (1, 2.0, 1.0, 0, 0.0)
    made.turn(20)
    assert sampler.take().p99_ms is None, "no replies since"


def test_skew_is_that_of_cpu_where_nodes_report_enough_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stage("a")
    requests = Repartitioning(made.log, made.topics)
    sampler, late = (Sampler(made.log, made.topics, requests, lambda: made.now_ms, each) for each in (1.5, 1.9))
    keys = [[key for key in map(str, range(99)) if GROUP.bucket(key) % 2 == home][:2] for home in range(2)]
    for key, times in ((keys[0][0], 2), (keys[0][1], 8), (keys[1][0], 30)):
        for _ in range(times):
            made.call("count", key, "add", [1])
    made.turn(20)
    hot = {f"hot/0/count/{GROUP.bucket(keys[0][0])}": 0.9}
    for cpu in ({"cpu/0": 1.0, "cpu/1": 1.0}, {"cpu/0": 2.8, "cpu/1": 1.2, **hot}):
        made.log.append(made.topics.heartbeats, 0, [m.encode(m.Heartbeat(1, "other", 0, stats=cpu))])
        made.now_ms += 4_000
    found = sampler.take()
    assert (found.skew_by, found.hottest, found.coldest) == ("cpu", 0, 1)
    assert (found.skew, found.coldest_part) == (pytest.approx(1.8), pytest.approx(1 / 9))
    assert found.hottest_key == pytest.approx(0.9 + 0.1 * 0.2, abs=0.01), "by heat it would be the other key of it"
    assert late.take().hottest_key == 0.0, "the skew is too little for that to matter"
    after = msgspec.structs.replace(requests.layout(), number=1)
    monkeypatch.setattr(Repartitioning, "layout", lambda self: after)
    again = sampler.take()
    assert (again.skew_by, again.hottest) == ("heat", 1)


def test_requests_that_nobody_takes_are_lag_also_if_all_nodes_are_gone() -> None:
    made = stage("a")
    made.call("count", "k", "add", [1])
    sampler = Sampler(made.log, made.topics, Repartitioning(made.log, made.topics), lambda: made.now_ms)
    made.nodes.clear()
    made.client.send("count", "k", "add", [1])
    made.log.append(made.topics.epochs, 0, [b"none"])
    made.now_ms += 9_000
    found = sampler.take()
    assert (found.nodes, found.busy, found.lag_s) == (0, None, 9.0)


def test_a_job_of_which_no_epoch_was_ever_cut_has_lag_too() -> None:
    made = stage()
    sampler = Sampler(made.log, made.topics, Repartitioning(made.log, made.topics), lambda: made.now_ms)
    made.client.send("count", "k", "add", [1])
    made.now_ms += 3_000
    assert sampler.take().lag_s == 3.0


def test_a_decision_is_recorded_and_carried_out_and_then_cools_down() -> None:
    made, provider = stage("a"), Provider()
    mine = scaler(made, limits(partitions=(3, 8)), provider)
    made.turn(20)
    assert mine.turn().decision is None
    made.turn(20)
    outcome = mine.turn()
    assert outcome.decision is not None and outcome.won and not outcome.problem
    assert (outcome.action.kind, outcome.action.partitions) == ("repartition", 3)
    made.turn(20)
    assert "since the last decision" in mine.turn().action.reason
    made.turn(300)
    requests = Repartitioning(made.log, made.topics)
    assert requests.layout().partitions == 3 and provider.asked == []
    assert decisions_of(requests.read()) == [outcome.decision]


def test_nodes_are_asked_of_the_provider_by_the_one_whose_record_was_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made, provider, other = stage("a"), Provider(), Provider()
    mine, rival = scaler(made, limits(nodes=2), provider), scaler(made, limits(nodes=2), other)
    append, rivals = made.log.append, list[Outcome]()

    def raced(topic: str, *given: Any, **named: Any) -> Any:
        if topic == made.topics.control and b"autoscale" in given[1][0] and not rivals:
            monkeypatch.setattr(made.log, "append", append)
            rivals.append(rival.turn())
        return append(topic, *given, **named)

    for each in (mine, rival):
        made.turn(20)
        each.turn()
    made.turn(20)
    monkeypatch.setattr(made.log, "append", raced)
    outcome = mine.turn()
    assert [each.won for each in rivals] == [True] and other.asked == [(2, 1)]
    assert outcome.decision is not None and not outcome.won and provider.asked == []
    assert decisions_of(Repartitioning(made.log, made.topics).read()) == [rivals[0].decision]


def test_without_room_on_the_log_nothing_is_decided_and_then_it_is_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, provider = stage("a"), Provider()
    mine, append = scaler(made, limits(nodes=2), provider), made.log.append

    def full(topic: str, *given: Any, **named: Any) -> Any:
        if topic == made.topics.control:
            raise LogFull(f"topic {topic!r}: no space left")
        return append(topic, *given, **named)

    made.turn(20)
    mine.turn()
    monkeypatch.setattr(made.log, "append", full)
    for _ in range(2):
        made.turn(20)
        with pytest.raises(LogFull):
            mine.turn()
    assert provider.asked == [] and decisions_of(Repartitioning(made.log, made.topics).read()) == []
    monkeypatch.setattr(made.log, "append", append)
    made.turn(20)
    outcome = mine.turn()
    assert outcome.won and provider.asked == [(2, 1)]
    assert decisions_of(Repartitioning(made.log, made.topics).read()) == [outcome.decision]


def test_a_dry_run_writes_nothing() -> None:
    made = stage("a")
    mine = scaler(made, limits(nodes=2), None)
    made.turn(20)
    mine.turn()
    made.turn(20)
    before = made.log.end_offset(made.topics.control, 0)
    outcome = mine.turn()
    assert (outcome.action.kind, outcome.action.nodes, outcome.decision) == ("nodes", 2, None)
    assert made.log.end_offset(made.topics.control, 0) == before


def test_an_action_that_cannot_be_is_a_problem_and_no_end() -> None:
    made = stage("a")
    mine = scaler(made, limits(partitions=(3000, 4000)), Provider())
    made.turn(20)
    mine.turn()
    made.turn(20)
    assert "3000 partitions for 1024 buckets" in mine.turn().problem


def test_records_of_another_release_are_left_out() -> None:
    made = stage("a")
    made.log.append(made.topics.control, 0, [m.encode(m.Command(1, AUTOSCALE, '{"number":1,"odd":true}'))])
    assert decisions_of(Repartitioning(made.log, made.topics).read()) == []
    mine = scaler(made, limits(nodes=2), Provider())
    made.turn(20)
    mine.turn()
    made.turn(20)
    made_decision = mine.turn().decision
    assert made_decision is not None and made_decision.number == 2


def test_operators_with_the_most_partitions_get_more_and_those_with_too_many_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = stage("a")
    operators = {each.name: each for each in (Operator("wide", partitions=4), Operator("narrow", partitions=1))}
    layout, groups = Layout.first(operators), {name: Group.of(each) for name, each in operators.items()}
    monkeypatch.setattr(Repartitioning, "layout", lambda self: layout)
    monkeypatch.setattr(Repartitioning, "groups", groups)
    requests = Repartitioning(made.log, made.topics)
    assert operators_to_scale(requests, 6) == ["wide"] == operators_to_scale(requests, 2)
