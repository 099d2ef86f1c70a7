"""Takeovers that go wrong: two thieves of one partition at the same time, and a thief that dies at once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from nodes.machine import messages as m
from nodes.machine.membership.pace import LAST_RESORT_TIMES
from nodes.machine.partition_lifecycle import PartitionStage
from nodes.runtime.heartbeat_topics import deaf_after_ms
from nodes.sim.checks import whole
from nodes.sim.faults.network_partitions import make_cut
from nodes.sim.node_process import NodeProcess
from nodes.sim.run import live
from nodes.sim.trace import Trace
from nodes.sim.world import World
from nodes.streams.jobs import JobTopics
from tests.shares import share_of
from tests.sim.streams.test_replicas import END_MS, KILL_MS, options

SUSPECT_MS = 120
DEAF_MS = (LAST_RESORT_TIMES + 4) * SUSPECT_MS
SEEDS = 3
MOST_SEEDS = 30
LONG_MS = 20_000
CASES = ["query1", "two-stages"]


def fleet(case: str, replicas: int, **changes: Any) -> World:
    """Three nodes with equal timers, four partitions, a steady input, a slow store."""
    world = World(options(case, replicas, failure_timeout_ms=SUSPECT_MS, load_ms=20, **changes), Trace())
    world.run_until(lambda: False, KILL_MS)
    return world


def named(world: World, name: str) -> NodeProcess:
    return next(process for process in world.processes if process.name == name)


def claims(world: World) -> Counter[tuple[int, int]]:
    """How often each version of each partition was claimed."""
    decoded = [m.decode_control(value) for value in whole(world.log, world.run.job.control_topic, 0).values]
    return Counter((said.partition, said.version) for said in decoded if isinstance(said, m.Claim))


def settled(world: World) -> bool:
    """Whether each partition has one owner, at work, and all agree who that is."""
    return all(
        owner is not None and [process.name for process in world.processes if _owns(process, partition)] == [owner]
        for partition, owner in world.folded().owners().items()
    )


def conclude(world: World) -> None:
    world.run_until(lambda: world.all_fed, LONG_MS)
    world.heal()
    world.end_input()
    live(world)


def deafen(world: World) -> None:
    """The two that are left read no heartbeat, and take the same partitions at the same time as the last resort."""
    world.kill(named(world, "node-0"))
    until_ms = world.now_ms + DEAF_MS
    for process in world.processes:
        process.cut_off(make_cut("heartbeats", process.topics, until_ms, 10 * DEAF_MS))
    world.run_until(lambda: False, until_ms)


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("case", share_of(CASES, 2, __name__))
def test_two_thieves_of_one_partition_leave_one_owner_and_one_answer(case: str, replicas: int) -> None:
    rivals = 0
    for seed in range(MOST_SEEDS):
        if rivals and seed >= SEEDS:
            break
        # No checkpoint says that a node lives, and claims are on their way for long enough to cross each other.
        arrival = 0.1 if seed % 2 else 0.03
        world = fleet(
            case, replicas, seed=seed, checkpoint_interval_ms=9000, merged_checkpoint_interval_ms=0, arrival=arrival,
            records=1400, feed_ms=7000,
        )  # fmt: skip
        deafen(world)
        assert world.run_until(partial(settled, world), LONG_MS), f"seed {seed}: not one owner for each partition"
        rivals += sum(times > 1 for times in claims(world).values())
        conclude(world)
    assert rivals > 0, "nobody claimed what another one claimed"


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_a_node_whose_reads_alone_are_cut_takes_nothing_and_is_replaced(case: str, replicas: int) -> None:
    """Its writes arrive, and the control topic is at rest, so nothing but its own heartbeats shows it the cut."""
    world = fleet(
        case, replicas, checkpoint_interval_ms=9000, merged_checkpoint_interval_ms=0, records=1400, feed_ms=7000
    )
    deaf, before = named(world, "node-1"), claims(world)
    had = [unit for unit, owner in world.folded().owners().items() if owner == "node-1"]
    deaf.cut_off(make_cut("reads", deaf.topics, world.now_ms + LONG_MS, 10 * LONG_MS))
    until_ms = world.now_ms + 2 * deaf_after_ms(SUSPECT_MS)
    assert world.run_until(lambda: "node-1" not in world.folded().owners().values(), until_ms), "it is believed"
    assert set(world.folded().owners().values()) == {"node-0", "node-2"}
    assert sorted(unit for unit, _ in claims(world) - before) == had, "it took something"
    conclude(world)


@pytest.mark.parametrize(
    ("stage", "replicas"), [(PartitionStage.LOADING, 1), (PartitionStage.OWNING, 1), (PartitionStage.OWNING, 2)]
)
@pytest.mark.parametrize("case", CASES)
def test_a_thief_may_die_before_it_has_said_anything(case: str, stage: PartitionStage, replicas: int) -> None:
    world = fleet(case, replicas)
    stolen = [p for p, owner in world.folded().owners().items() if owner == "node-0"]
    world.kill(named(world, "node-0"))
    heirs = list(world.processes)
    said = {partition: _said(world, partition) for partition in stolen}

    def found() -> NodeProcess | None:
        for process in heirs:
            for partition in stolen:
                runner = process.node.work.runners.get(partition)
                if runner is not None and runner.standby is None and runner.lifecycle.stage is stage:
                    return process
        return None

    assert world.run_until(lambda: found() is not None, END_MS), f"nobody was {stage.value}"
    thief = found()
    assert thief is not None
    if stage is PartitionStage.LOADING:
        assert {partition: _said(world, partition) for partition in stolen} == said, "it has said something"
    world.kill(thief)
    conclude(world)


def _owns(process: NodeProcess, partition: int) -> bool:
    return any(runner.partition == partition for runner in process.node.work.owned())


def _said(world: World, partition: int) -> int:
    """Where the broadcast of a partition ends."""
    return whole(world.log, JobTopics.of(world.run).broadcast, partition).next_offset
