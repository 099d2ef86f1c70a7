"""Random transactions with external calls, on nodes that crash between asking and logging."""

from __future__ import annotations

import os
from random import Random

import pytest

from nodes.sim.case import SEVENTEENTH_SEED
from tests.sim.transactions.test_transactions import ask
from tests.sim.transactions_external_calls import ExternalCallsWorld
from tests.sim.transactions_layouts import propose_layout
from tests.sim.transactions_oracle import Check, Tally, each_seed
from tests.sim.transactions_scripts import Scripts, make_versions
from transactional.epochs.sequencer import EpochConfig
from transactional.requests.requests import WireRequest

SEEDS = 120


def simulate(seed: int) -> tuple[Tally, ExternalCallsWorld]:
    draw = Random(seed)
    window = draw.choice([3, 20_000])  # with a short one, requests that wait are forgotten before they go on
    config = EpochConfig(
        draw.choice([1, 3, 20]), interval_ms=draw.randrange(4), ahead=draw.randrange(1, 4), id_window=window
    )
    versions = make_versions(draw.randrange(1, 4))[: 3 if seed % 3 == 0 else 1]
    world = ExternalCallsWorld(
        versions[0],
        draw.randrange(1 << 30),
        nodes=draw.randrange(1, 4),
        sequencers=draw.randrange(1, 4),
        config=config,
        versions=versions,
        strain=seed if seed >= SEVENTEENTH_SEED and seed % 2 else None,
        seed=seed if seed >= SEVENTEENTH_SEED else 0,
    )
    scripts = Scripts(draw, draw.choice([1, 3, 10, 40]), external=True)
    asked: list[WireRequest] = []
    for _ in range(draw.randrange(100, 500)):
        if draw.random() < 0.07:
            if window > 3:
                ask(world, draw, scripts, asked)
            else:
                ask_new(world, scripts, asked)
        world.versions.maybe_propose(world.log, 0.01)
        for odds, happens in [(0.01, world.crash), (0.01, world.overlap), (0.02, world.save), (0.01, world.forget)]:
            if draw.random() < odds:
                happens()
        if world.placing.random() < 0.01:
            propose_layout(world)
        world.act()
    world.heal()
    assert not any(p.replies.external_requests for life in world.lives for p in life.node.partitions.values())
    return Check(world).run(), world


def ask_new(world: ExternalCallsWorld, scripts: Scripts, asked: list[WireRequest]) -> None:
    """None that comes again: what is said of that depends on the window."""
    operator, key = scripts.entity()
    asked.append(WireRequest(f"r{len(asked)}", operator, key, "run", [scripts.script(operator)]))
    world.send(asked[-1])


@pytest.mark.long
def test_external_calls_count_once_whoever_crashes() -> None:
    base, tally, called, again, strained = int(os.environ["SIM_BASE_SEED"]), Tally(), 0, 0, 0
    for found, world in each_seed(base, SEEDS, simulate):
        tally.add(found)
        called += len(world.calls)
        strained += world.is_strained
        again += sum(times > 1 for times in world.calls.values())
    assert tally.continued and tally.asked and tally.restored and tally.logged and tally.crashes, tally
    assert tally.moved_keys and tally.moved_replies and tally.copies and strained, tally
    assert 0 < again < called, f"{again} of {called} calls were made again: crashes come between asking and logging"
