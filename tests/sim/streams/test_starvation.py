"""Nodes with 5 to 20 % of a CPU each, for minutes: work stays where it is, and a dead node's is taken over."""

from __future__ import annotations

import os
from random import Random

import pytest

from deploy.bench.scale import answers
from tests.shares import share_of
from tests.sim import counts
from tests.sim.starved_fleet import StarvedFleet, starved_plan
from tests.sim.starved_world import HEALTHY_MS, UNITS, StarvedWorld

MINUTES = counts.drawn(4, 10)
MOST_MOVES = 2
NEARLY_ALL = 1 - 1 / MINUTES
"""The share of all but one minute, which the start may take."""


def drawn() -> int:
    return int(os.environ["SIM_BASE_SEED"])


def shares_of(draw: Random) -> list[float]:
    return [draw.uniform(0.05, 0.2) for _ in range(draw.choice([2, 2, 3]))]


@pytest.mark.long
@pytest.mark.parametrize("seed", [*share_of([2, 204, 5016], 3, __name__), None])
def test_starved_transactional_nodes_leave_units_where_they_are(seed: int | None) -> None:
    draw = Random(drawn() if seed is None else seed)
    shares = shares_of(draw)
    world = StarvedWorld(draw.randrange(1 << 30), shares, a_second=draw.choice([5, 10]))
    world.run(MINUTES * 60_000)
    moves = world.moves()
    assert max(moves.values()) <= MOST_MOVES, f"seed {seed or drawn()}: moves {moves}, shares {shares}"
    assert world.committed > NEARLY_ALL * world.asked, f"seed {seed or drawn()}: {world.committed} of {world.asked}"


@pytest.mark.long
@pytest.mark.parametrize("seed", [*share_of([1, 2098655845194], 2, __name__), None])
def test_starved_streaming_nodes_leave_partitions_where_they_are(seed: int | None) -> None:
    draw = Random(drawn() if seed is None else seed)
    shares = shares_of(draw)
    plan = starved_plan(draw.randrange(1 << 30), len(shares), 4, MINUTES * 60)
    fleet = StarvedFleet(plan, shares)
    fleet.live()
    assert max(fleet.moves().values()) <= MOST_MOVES, f"seed {seed or drawn()}: {fleet.moves()}, shares {shares}"
    latencies, wrong = answers(fleet, fleet.bids)
    assert wrong == 0 and len(latencies) > NEARLY_ALL * MINUTES * 60


@pytest.mark.parametrize("seed", [5, 6, None])
def test_what_a_dead_node_leaves_is_taken_over_though_the_others_are_starved(seed: int | None) -> None:
    draw = Random(drawn() if seed is None else seed)
    shares = shares_of(draw)
    world = StarvedWorld(draw.randrange(1 << 30), shares, a_second=5)
    world.run(60_000)
    dead = draw.choice(world.members)
    world.kill(dead)
    living = {member.name for member in world.members} - {dead.name}
    owners = world.ownership.owners
    taken = world.run(world.now_ms + 60_000, lambda: set(owners().values()) <= living)
    assert taken, f"seed {seed or drawn()}: a minute later units {world.ownership.owned_by(dead.name)} have no owner"
    asked, answered = world.asked, world.committed
    assert world.run(world.now_ms + 120_000, lambda: world.committed - answered > 50), f"{asked} asked, nothing replied"


@pytest.mark.parametrize("seed", range(5))
def test_healthy_nodes_take_over_as_soon_as_ever(seed: int) -> None:
    world = StarvedWorld(seed, [1.0, 1.0], a_second=20)
    assert world.run(HEALTHY_MS, lambda: None not in world.ownership.owners().values())
    world.run(3 * HEALTHY_MS)
    world.kill(world.members[0])
    began_ms = world.now_ms
    assert world.run(began_ms + 1_000, lambda: len(world.ownership.owned_by("n1")) == UNITS)
    assert world.now_ms - began_ms < 450, f"seed {seed}: {world.now_ms - began_ms} ms"
