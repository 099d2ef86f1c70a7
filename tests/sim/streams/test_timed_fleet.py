"""Fleets in which turns take what they cost: results are right, and latency and load follow from costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.bench.scale import PLAIN, answers, measured, plan_of
from deploy.stand_ins import BidTicks
from nexmark.queries import nexmark_job
from nodes.machine.config import NodeConfig, broadcast_interval_ms
from nodes.sim.large_fleets.costs import Costs, TurnCounts
from nodes.sim.large_fleets.timed import TimedFleet, TimedPlan

COSTS = Costs(turns=60.0, runners=20.0, batches=100.0, events=1.0, deltas_in=50.0, deltas_out=60.0, sends=70.0)


def plan(nodes: int = 6, partitions: int = 12, **changes: int) -> TimedPlan:
    made = plan_of(nodes, partitions, 1.5, PLAIN)
    return replace(made, warmup_s=0.6, config=replace(made.config, **changes))


def lived(of: TimedPlan, costs: Costs = COSTS) -> tuple[TimedFleet, list[float]]:
    bids = BidTicks(of.partitions, of.tick_ms)
    fleet = TimedFleet(of, nexmark_job("q7"), bids, costs)
    fleet.live()
    latencies, wrong = answers(fleet, bids)
    assert wrong == 0 and latencies
    return fleet, latencies


def test_a_timed_fleet_takes_all_its_input_and_its_results_are_right() -> None:
    row = measured(plan(), COSTS)
    assert row["wrong"] == 0 and row["windows"] >= 1
    assert row["consumed_per_s"] == pytest.approx(row["offered_per_s"], rel=0.1)
    assert 0 < row["busy_cores"]["mean"] < 1 and row["latency_ms"]["avg"] > 2 * plan().transit_us / 1000
    assert row["busy_cores"]["mean"] == pytest.approx(sum(row["busy_by_kind"].values()), rel=0.05)


def test_the_same_run_is_the_same() -> None:
    first, again = (lived(plan()) for _ in range(2))
    assert first[1] == again[1] and first[0].arrivals == again[0].arrivals
    assert [member.busy_us for member in first[0].members] == [member.busy_us for member in again[0].members]


def test_results_wait_for_what_is_dear() -> None:
    cheap, dear = lived(plan())[1], lived(plan(), Costs(**{**_fields(COSTS), "deltas_in": 3000.0}))[1]
    assert min(dear) > max(cheap) + 5 * 3.0, "a node reads the deltas that close a window one after the other"


def test_nodes_that_cost_more_than_there_is_fall_behind() -> None:
    behind_ms = {}
    for event_us in (1.0, 300.0):
        fleet = TimedFleet(plan(2, 4), nexmark_job("q7"), BidTicks(4, 50), Costs(events=event_us))
        fleet.live()
        behind_ms[event_us] = min(member.free_us - fleet.now_us for member in fleet.members) / 1000
    assert behind_ms[1.0] < 50, "events of 1 us at 10,000 a second"
    assert behind_ms[300.0] > 150, "three seconds of work a second"


@pytest.mark.long
def test_where_many_deltas_would_be_read_they_leave_less_often() -> None:
    often, _ = lived(plan(partitions=40, checkpoint_interval_ms=60_000))
    rarely, latencies = lived(plan(partitions=40, checkpoint_interval_ms=60_000, broadcast_max_per_s=20))
    assert len(rarely.arrivals) < 0.6 * len(often.arrivals)
    assert max(latencies) < 200, "what completes a window leaves at once all the same"


def test_interval_widens_with_partitions_but_not_where_results_wait_for_their_delta() -> None:
    fleet = TimedFleet(plan(2, 4), nexmark_job("q7"), BidTicks(4, 50), COSTS)
    config = NodeConfig("", broadcast_interval_ms=200, broadcast_max_per_s=500)
    for partitions, expected in ((4, 200), (100, 200), (1000, 2000)):
        assert broadcast_interval_ms(config, replace(fleet.run, partitions=partitions)) == expected
    assert broadcast_interval_ms(replace(config, broadcast_max_per_s=0), replace(fleet.run, partitions=1000)) == 200
    idle = replace(fleet.run.job, source=replace(fleet.run.job.source, idle_timeout_ms=100))
    assert broadcast_interval_ms(config, replace(fleet.run, job=idle, partitions=1000)) == 200


def test_without_costs_turns_are_measured() -> None:
    clock = iter(range(0, 10**12, 250_000))
    made = replace(plan(2, 4), alone=2)
    fleet = TimedFleet(made, nexmark_job("q7"), BidTicks(4, 50), None, lambda: next(clock))
    fleet.live()
    turns = [turn for member in fleet.members for turn in member.turns]
    assert {us for _, us in turns} == {250.0}
    total = TurnCounts()
    for done, _ in turns:
        total.add(done)
    assert total.turns == len(turns) and min(total.deltas_in, total.deltas_out, total.batches, total.heartbeats) > 0


def _fields(costs: Costs) -> dict[str, float]:
    return {name: getattr(costs, name) for name in costs.__struct_fields__}
