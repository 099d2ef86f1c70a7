"""Random transactions whose topics are trimmed behind checkpoints: nobody who starts, or is late, misses anything."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.sim.transactions.test_transactions import ask
from tests.sim.transactions_layouts import propose_layout
from tests.sim.transactions_oracle import Check, Tally, each_seed
from tests.sim.transactions_scripts import Scripts, make_versions
from tests.sim.transactions_strained import StrainedWorld
from tests.sim.transactions_world import CALLS, COMMITS, EPOCHS, REQUESTS, World
from transactional import events as e
from transactional.epochs.sequencer import EpochConfig
from transactional.requests.requests import WireRequest

SEEDS = 60
AHEAD = (18015454581118533, 18015454581119505)
"""Seeds of runs in which a partition begins with a checkpoint of a later version than its node's ledger has read of."""
TRYING = (18015454581116781,)
"""In which a node that takes requests over has an attempt at an epoch to write first."""


def run(seed: int) -> World:
    """Half of the runs forget ids after a few requests, and see each id once; the others know them for good."""
    draw = Random(seed)
    versions = make_versions(draw.randrange(1, 4))[: 3 if seed % 3 == 0 else 1]
    window = draw.choice([2, 20_000])
    config = EpochConfig(
        draw.choice([1, 3]), inline_bytes=draw.choice([0, 300, 1 << 15]), ahead=draw.randrange(1, 4), id_window=window
    )
    nodes, sequencers = draw.randrange(2, 4), draw.randrange(1, 3)
    given = {"nodes": nodes, "sequencers": sequencers, "config": config, "versions": versions}
    strain = seed if seed % 2 else None
    world = StrainedWorld(versions[0], draw.randrange(1 << 30), strain=strain, seed=seed, **given)
    scripts = Scripts(draw, draw.choice([1, 3, 10]), late=len(versions) > 1)
    asked: list[WireRequest] = []
    for number in range(draw.randrange(20, 50)):
        if window > 2:
            ask(world, draw, scripts, asked)
        else:
            operator, key = scripts.entity()
            world.send(WireRequest(f"r{number}", operator, key, "run", [scripts.script(operator)]))
        world.versions.maybe_propose(world.log, 0.1)
        for _ in range(draw.randrange(60)):
            world.act()
        if draw.random() < 0.04:
            world.crash()
        if draw.random() < 0.04:
            world.overlap()
        if world.placing.random() < 0.1:
            propose_layout(world)
        for _ in range(draw.randrange(4)):
            world.save()
        for _ in range(draw.randrange(8)):
            world.trim()
    world.heal()
    return world


@pytest.mark.long
def test_who_starts_or_is_late_misses_nothing_of_topics_that_are_trimmed() -> None:
    base = int(os.environ["SIM_BASE_SEED"])
    tally, trimmed, behind = Tally(), dict.fromkeys((EPOCHS, CALLS, COMMITS, REQUESTS), 0), 0

    def judged(seed: int) -> Tally:
        nonlocal behind
        world = run(seed)
        for (topic, _), offset in world.trimmed.items():
            if topic in trimmed:
                trimmed[topic] += offset
        behind += world.behind
        return Check(world).run()

    for found in each_seed(base, SEEDS, judged):
        tally.add(found)
    assert all(trimmed.values()) and behind, (trimmed, behind)
    assert tally.crashes and tally.restored and tally.reruns and tally.moved_keys and tally.partitions_made, tally


@pytest.mark.parametrize("seed", [*AHEAD, *TRYING])
def test_what_was_wrong_once_is_right(seed: int) -> None:
    tally = Check(run(seed)).run()
    assert tally.epochs and tally.crashes, tally


def test_an_owner_that_is_behind_the_checkpoints_of_another_still_ends_its_epochs() -> None:
    program = make_versions(1)[0]
    world = World(program, 1, nodes=2, sequencers=1, config=EpochConfig(inline_bytes=0))
    ahead = next(life for life in world.lives if life.node.partitions)
    behind = next(life for life in world.lives if life is not ahead)
    world.take(behind, 0)
    scripts = Scripts(Random(1), 3)
    for number in range(12):
        world.send(WireRequest(f"r{number}", *scripts.entity(), "run", [[]]))
        for _ in range(5):
            for life in world.lives:
                world.whole_turn(life, reads_calls=life is ahead)
    assert behind.node.ledger.done > 5 and behind.node.partitions[0].epoch == 1
    for life in world.lives:
        life.node.receive(e.EpochsCovered(behind.node.ledger.done + 1))
    world.heal()
    assert behind.node.partitions[0].epoch == behind.node.ledger.done + 1
