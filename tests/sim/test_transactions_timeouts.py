"""Functions that hang, on nodes that crash and overlap: each is answered alike, and the others count right."""

from __future__ import annotations

import os
from random import Random

from tests.sim.transactions_world import World
from tests.unit.txn_hanging import HANGS, program
from transactional.requests import WireRequest
from transactional.sequencer import EpochConfig

SEEDS = 60
KEYS = "abcde"


def run(seed: int) -> tuple[World, dict[str, WireRequest]]:
    draw = Random(seed)
    config = EpochConfig(draw.choice([1, 5, 20]), ahead=draw.randrange(1, 4), inline_bytes=draw.choice([0, 1 << 15]))
    world = World(program, seed, nodes=draw.randrange(1, 4), sequencers=draw.randrange(1, 4), config=config)
    asked: dict[str, WireRequest] = {}
    while len(asked) < 25:
        if draw.random() < 0.1:
            name, key = f"r{len(asked)}", draw.choice(KEYS)
            others = [draw.choice(KEYS) for _ in range(draw.randrange(1, 4))]
            function, arguments = draw.choice([("add", [1]), ("add", [1]), ("start", [others, draw.random() < 0.5])])
            asked[name] = WireRequest(name, "it", key, function, arguments)
            world.ask(asked[name])
        if draw.random() < 0.01:
            draw.choice([world.crash, world.overlap, world.save, world.forget])()
        world.act()
    world.heal()
    return world, asked


def test_what_hangs_is_answered_alike_and_counts_nowhere() -> None:
    base, crashes, hung = int(os.environ["SIM_BASE_SEED"]), 0, 0
    for seed in range(base, base + SEEDS):
        world, asked = run(seed)
        replies = [each for p in range(program.partitions) for record in world.replies(p) for each in record.replies]
        outcomes: dict[str, object] = {}
        for reply in replies:  # repeats of two owners included
            assert outcomes.setdefault(reply.id, reply.outcome) == reply.outcome, f"seed {seed}: {reply}"
        hangs = {name for name, request in asked.items() if request.function == "start"}
        assert {name for name, outcome in outcomes.items() if outcome == HANGS} == hangs, f"seed {seed}"
        for key in KEYS:
            added = [name for name in sorted(asked.keys() - hangs) if asked[name].key == key]
            counted = sorted(str(outcomes[name]).zfill(3) for name in added)
            assert counted == [str(n).zfill(3) for n in range(1, len(added) + 1)], f"seed {seed}, key {key}"
        crashes, hung = crashes + world.crashes, hung + len(hangs)
    assert crashes and hung
