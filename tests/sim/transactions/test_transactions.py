"""Random transactions on nodes that crash and overlap: replies and state are those of one plain loop."""

from __future__ import annotations

import os
from random import Random

import pytest
from msgspec.structs import replace

from nodes.sim.case import FIFTEENTH_SEED
from tests.sim.counts import drawn
from tests.sim.transactions_layouts import propose_layout
from tests.sim.transactions_oracle import Check, Tally, each_seed
from tests.sim.transactions_scripts import Scripts, make_versions
from tests.sim.transactions_strained import StrainedWorld
from tests.sim.transactions_world import World
from transactional.epochs.ledger import Ledger
from transactional.epochs.pieces import COMPRESS_BYTES, PIECE_BYTES
from transactional.epochs.sequencer import EpochConfig
from transactional.operators import Limits
from transactional.requests.requests import WireRequest, partition_of

SEEDS_EACH = 200
PARTS = drawn(2, 20)
LONG = (COMPRESS_BYTES, PIECE_BYTES), (60, 50)
"""Records above this travel compressed, and in pieces of so much."""
INLINE = (0, 300, 1 << 15)
"""Calls travel on their own, in barriers while they are few, nearly always in barriers."""
SCARCE = 5
"""Of eleven seeds one in which some transactions make more bytes than they may."""
STRAINED = 4
"""Of so many seeds one has layouts, and nodes that stand still, units without an owner, or requests in bursts."""
LONG_BATCHES = tuple(FIFTEENTH_SEED + seed for seed in (4, 160, 300, 340, 388, 508))
"""Seeds of runs in which batches of copies have several records for a partition, which is rare."""
POSTPONING = (19, 85, 107, 122, 199)
"""Seeds of runs in which transactions are postponed, which is rare."""


def simulate(seed: int) -> Tally:
    """One run, judged."""
    world = healed(seed)
    tally = Check(world).run()
    if world.is_strained:
        tally.strained_copies, tally.strained_versions = tally.copies, tally.versions
    return tally


def healed(seed: int) -> StrainedWorld:
    """One run; everything in it is drawn from the seed."""
    draw = Random(seed)
    limits = Limits(max_bytes=100 + seed % 900) if seed % 11 == SCARCE else None
    versions = make_versions(draw.randrange(1, 5), limits)[: 3 if seed % 3 == 0 else 1]
    sizes = draw.choice([1, 3, 20]), draw.randrange(4), draw.randrange(1, 4)
    config = EpochConfig(
        sizes[0],
        draw.choice([100, 1 << 18]),
        interval_ms=sizes[1],
        ahead=sizes[2],
        inline_bytes=INLINE[seed % 3],
        compress_bytes=LONG[seed % 2][0],
        piece_bytes=LONG[seed % 2][1],
    )
    nodes, sequencers = draw.randrange(1, 4), draw.randrange(1, 4)
    given = {"nodes": nodes, "sequencers": sequencers, "config": config, "versions": versions}
    strain = seed if seed % STRAINED == 0 else None
    world = StrainedWorld(versions[0], draw.randrange(1 << 30), strain=strain, seed=seed, **given)
    scripts = Scripts(draw, draw.choice([1, 3, 10, 40]), late=len(versions) > 1)
    asked: list[WireRequest] = []
    left = draw.randrange(5, 40)
    while left or world.quiet:
        for _ in range(world.requests_due(draw, 0.1, left)):
            ask(world, draw, scripts, asked)
            left -= 1
            if asked and world.side.random() < 0.1:
                world.misplace(world.side.choice(asked))
        if draw.random() < 0.004:
            world.crash()
        if draw.random() < 0.004:
            world.overlap()
        if seed % STRAINED == 0 and world.placing.random() < 0.06:
            propose_layout(world)
        world.versions.maybe_propose(world.log, 0.01)
        if draw.random() < 0.01:
            world.save()
        if draw.random() < 0.01:
            world.forget()
        world.act()
    world.heal()
    return world


def ask(world: World, draw: Random, scripts: Scripts, asked: list[WireRequest]) -> None:
    """A new request; now and then one that comes again, uses an id twice, or cannot be run."""
    operator, key = scripts.entity()
    request = WireRequest(f"r{len(asked)}", operator, key, "run", [scripts.script(operator)])
    match draw.choices(["new", "again", "reused", "unknown", "garbage", "together"], [20, 3, 1, 1, 1, 3])[0]:
        case "again" if asked:
            request = draw.choice(asked)
        case "reused" if asked:
            request.id = draw.choice(asked).id
        case "unknown":
            request.function = "rum"
        case "garbage":
            world.append_request(draw.randrange(world.sequencers), b'{"id": "x", "operator": 5}{')
            return
        case "together":
            send_batch(world, draw, scripts, asked)
            return
        case _:
            asked.append(request)
    world.send(request)


def send_batch(world: World, draw: Random, scripts: Scripts, asked: list[WireRequest]) -> None:
    """Several in one record, old ones and new ones, whose ids go together."""
    place = draw.randrange(world.sequencers)
    together = [each for each in asked if partition_of(each.id, world.sequencers) == place and draw.random() < 0.1]
    for _ in range(draw.randrange(6)):
        operator, key = scripts.entity()
        request = WireRequest(f"r{len(asked)}", operator, key, "run", [scripts.script(operator)])
        asked.append(request)
        if partition_of(request.id, world.sequencers) == place:
            together += [request] * draw.choice([1, 1, 1, 2])
        else:
            world.send(request)
    if together:
        world.send_batch(together)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_random_transactions_equal_one_plain_loop(part: int) -> None:
    base = int(os.environ["SIM_BASE_SEED"]) + part * SEEDS_EACH
    tally = Tally()
    for found in each_seed(base, SEEDS_EACH, simulate):
        tally.add(found)
    assert tally.restored and tally.chained and tally.logged and tally.crashes, tally
    assert tally.sources and tally.abandoned and tally.layouts and tally.splits and tally.void_cuts, tally
    assert tally.versions and tally.upgraded and tally.judged, tally
    assert tally.moved_keys and tally.moved_replies and tally.copies and tally.partitions_made, tally
    assert tally.strained_copies and tally.strained_versions, tally
    assert tally.reruns and tally.races and tally.failed and tally.committed, tally


def test_moves_by_batches_of_several_records_lose_and_repeat_nothing() -> None:
    tally = Tally()
    for seed in LONG_BATCHES:
        tally.add(simulate(seed))
    assert tally.long_batches > 20 and tally.crashes > 10, tally


def test_a_ledger_that_begins_at_a_snapshot_knows_what_one_knows_that_has_read_all() -> None:
    carried = pending = 0
    for seed in (*POSTPONING, *range(int(os.environ["SIM_BASE_SEED"]), int(os.environ["SIM_BASE_SEED"]) + 20)):
        world = healed(seed)
        values = world.epochs_topic()
        whole = Ledger(world.versions.known(), world.sequencers)
        for value in values:
            whole.apply(value)
        folded = Ledger(world.versions.known(), world.sequencers)
        for at, value in enumerate(values, 1):
            folded.apply(value)
            folded.position = at
            if Random(at).random() < 0.1 or folded.epoch(folded.done + 1).carried:
                state = folded.snapshot()
                carried, pending = carried + bool(state.carried), pending + bool(state.barriers)
                begun = Ledger.restored(world.versions.known(), world.sequencers, state)
                for later in values[at:]:
                    begun.apply(later)
                assert begun.done == whole.done
                assert begun.snapshot() == replace(whole.snapshot(), epochs_offset=at)
                for number in range(state.done + 1, whole.done + 1):
                    assert begun.epoch(number) == whole.epoch(number), f"seed {seed}, record {at}, epoch {number}"
    assert carried and pending
