"""Functions that hang, on nodes that crash and overlap: each is answered alike, and the others count right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

from tests.sim.transactions_fragile import FragileWorld, NoneGoesOn
from tests.sim.transactions_world import World
from tests.unit.txn_hanging import HANGS, HANGS_AT_FOURS, chances, program
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import Reply, TimeoutAcknowledgement, TimeoutProposal, epoch_messages
from transactional.epochs.sequencer import EpochConfig
from transactional.requests.requests import WireRequest

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
            world.send(asked[name])
        if draw.random() < 0.01:
            draw.choice([world.crash, world.overlap, world.save, world.forget])()
        world.act()
    world.heal()
    return world, asked


def replies(world: World) -> Iterator[Reply]:
    """All that is on the log, repeats of two owners included."""
    return (each for p in range(program.partitions) for record in world.replies(p) for each in record.replies)


def agreed_outcomes(world: World, seed: int) -> dict[str, object]:
    """By request; every reply to one has to say the same."""
    outcomes: dict[str, object] = {}
    for reply in replies(world):
        assert outcomes.setdefault(reply.id, reply.outcome) == reply.outcome, f"seed {seed}: {reply}"
    return outcomes


def test_what_hangs_is_answered_alike_and_counts_nowhere() -> None:
    base, crashes, hung = int(os.environ["SIM_BASE_SEED"]), 0, 0
    for seed in range(base, base + SEEDS):
        world, asked = run(seed)
        outcomes = agreed_outcomes(world, seed)
        hangs = {name for name, request in asked.items() if request.function == "start"}
        assert {name for name, outcome in outcomes.items() if outcome == HANGS} == hangs, f"seed {seed}"
        for key in KEYS:
            added = [name for name in sorted(asked.keys() - hangs) if asked[name].key == key]
            counted = sorted(str(outcomes[name]).zfill(3) for name in added)
            assert counted == [str(n).zfill(3) for n in range(1, len(added) + 1)], f"seed {seed}, key {key}"
        crashes, hung = crashes + world.crashes, hung + len(hangs)
    assert crashes and hung


def run_again(seed: int) -> tuple[World, dict[str, WireRequest]]:
    """Counts of which every fourth hangs, most of them only when they are run again; others that count on."""
    draw = Random(seed)
    config = EpochConfig(draw.choice([5, 20]), ahead=draw.randrange(1, 4), inline_bytes=draw.choice([0, 1 << 15]))
    world = World(program, seed, nodes=draw.randrange(1, 4), sequencers=draw.randrange(1, 4), config=config)
    asked: dict[str, WireRequest] = {}
    while len(asked) < 25:
        if draw.random() < 0.2:
            name, key = f"r{len(asked)}", draw.choice("ab")
            function, arguments = ("add", [1]) if draw.random() < 0.3 else ("pass_on", [draw.choice(KEYS)])
            asked[name] = WireRequest(name, "it", key, function, arguments)
            world.send(asked[name])
        if draw.random() < 0.02:
            draw.choice([world.crash, world.overlap, world.save, world.forget])()
        world.act()
    world.heal()
    return world, asked


def test_what_hangs_only_when_it_is_run_again_is_answered_alike_and_counts_nowhere() -> None:
    base, crashes, left_out = int(os.environ["SIM_BASE_SEED"]), 0, 0
    for seed in range(base, base + SEEDS):
        world, asked = run_again(seed)
        outcomes = agreed_outcomes(world, seed)
        assert outcomes.keys() == asked.keys(), f"seed {seed}"
        for key in "ab":
            names = [name for name in asked if asked[name].key == key]
            done = [name for name in names if outcomes[name] != HANGS_AT_FOURS]
            assert sorted(str(outcomes[name]).zfill(3) for name in done) == [
                str(count).zfill(3) for count in range(1, len(done) + 1)
            ], f"seed {seed}, key {key}"
            fours = [name for name in done if outcomes[name] in range(4, 100, 4)]
            assert all(asked[name].function == "add" for name in fours), f"seed {seed}, key {key}"
        crashes += world.crashes
        said = (each for value in world.epochs_topic() for each in epoch_messages(value))
        left_out += len({(each.epoch, each.tid) for each in said if isinstance(each, TimeoutProposal)})
    assert crashes and left_out


def test_who_reads_the_log_anew_runs_nothing_again_that_it_says_hangs() -> None:
    base, interrupted = int(os.environ["SIM_BASE_SEED"]), [0, 0]
    for seed in range(base, base + 10):
        world, _ = run_again(seed)
        values = world.epochs_topic()
        ends = []
        for told, history_end in enumerate((0, len(values))):
            ledger = Ledger(program, world.sequencers)
            ledger.history_end = history_end
            for offset, value in enumerate(values):
                ledger.apply(value)
                ledger.has_read(offset + 1)
                interrupted[told] += len(ledger.hanging.take_unpublished())
            ends.append((ledger.done, ledger.epoch(ledger.done).outcome))
        assert ends[0] == ends[1], f"seed {seed}"
    assert interrupted[0] and not interrupted[1]


def run_by_chance(seed: int) -> FragileWorld:
    """Functions that hang by chance when they are run again; in the end each key is asked how far it has counted."""
    draw = Random(seed)
    config = EpochConfig(draw.choice([5, 20]), ahead=draw.randrange(1, 4), inline_bytes=draw.choice([0, 1 << 15]))
    nodes, sequencers, chance = draw.randrange(1, 4), draw.randrange(1, 4), draw.choice([0.02, 0.1, 0.3])
    world = FragileWorld(program, seed, nodes=nodes, sequencers=sequencers, config=config)
    asked = 0
    while asked < 25:
        chances[:] = [draw.random() < chance for _ in range(4)]
        if draw.random() < 0.05:
            world.send(WireRequest(f"r{asked}", "it", draw.choice("ab"), "both", [draw.choice("cde")]))
            asked += 1
        if draw.random() < 0.02:
            draw.choice([world.crash, world.overlap, world.save, world.forget])()
        world.act()
    chances[:] = [draw.random() < chance for _ in range(60)]
    world.heal()
    chances.clear()
    for key in KEYS:
        world.send(WireRequest(f"end{key}", "it", key, "add", [0]))
    world.heal()
    return world


def test_what_hangs_by_chance_counts_in_both_places_or_in_none_or_all_stop_by_name() -> None:
    """A node that ended an epoch that hangs elsewhere stops: its replies may be out, but none relies on them."""
    stops, left_out = 0, 0
    for seed in (702870, *range(SEEDS // 2)):  # always the same: what one in thousands shows is looked for by hand
        try:
            world = run_by_chance(seed)
        except NoneGoesOn:
            continue
        outcomes: dict[str, set[object]] = {}
        for reply in replies(world):
            outcomes.setdefault(reply.id, set()).add(reply.outcome)
        assert world.stops or world.crashes or all(len(each) == 1 for each in outcomes.values()), (
            f"seed {seed}: {outcomes}"
        )
        counts = [outcome for key in KEYS for outcome in outcomes[f"end{key}"] if isinstance(outcome, int)]
        assert len(counts) == len(KEYS) and sum(counts[:2]) == sum(counts[2:]), f"seed {seed}: {counts}"
        stops += world.stops
        said = (each for value in world.epochs_topic() for each in epoch_messages(value))
        left_out += sum(isinstance(each, TimeoutAcknowledgement) for each in said)
    assert stops and left_out
