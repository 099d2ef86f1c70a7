"""Functions that end their process, on nodes that crash and overlap besides: each is answered alike, others count."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from tests.sim.transactions.test_timeouts import agreed_outcomes
from tests.sim.transactions_fragile import FragileWorld
from tests.sim.transactions_world import Life
from tests.unit.txn_crashing import CRASHED, CRASHED_AT_FOURS, ended, program
from transactional.epochs.messages import Attempt, Crashes, TimeoutProposal, epoch_messages
from transactional.epochs.sequencer import EpochConfig
from transactional.errors import Aborted
from transactional.execution.crashing import DiedInTransaction
from transactional.requests.requests import WireRequest

SEEDS = 8
KEPT = (1189745371913,)
"""Found a fault once."""
LEFT_OUT = 11
"""Some of its functions end their process when they are run again, whatever is drawn besides."""
KEYS = "abcde"


class Ends(Exception):
    """The process has ended; what the step has made is gone with it."""


def apart(step: Callable[[], object]) -> DiedInTransaction | None:
    """In a process of its own, like a node."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            step()
        finally:
            os.write(writing, msgspec.json.encode(ended[:1]))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        found = msgspec.json.decode(said.read(), type=list[tuple[int, str]])
    os.waitpid(pid, 0)
    if not found:
        return None
    return DiedInTransaction(
        found[0][0], Aborted("Crashed", (f"function {found[0][1]} of operator it ends its process",))
    )


class CrashingWorld(FragileWorld):
    """A node that runs such a function is gone, with all that it has not written."""

    ends = (Ends,)

    apart = staticmethod(apart)

    def _born(self) -> Life:
        life = super()._born()
        step = life.node.step

        def ends(event: Any, now_ms: int) -> Any:
            made = step(event, now_ms)
            if ended:
                ended.clear()
                raise Ends
            return made

        life.node.step = ends
        return life


def run(seed: int, *, again: bool) -> tuple[CrashingWorld, dict[str, WireRequest]]:
    """``again``: counts of which every fourth ends its process, most of them only when they are run again."""
    draw = Random(seed)
    config = EpochConfig(draw.choice([1, 5, 20]), ahead=draw.randrange(1, 4), inline_bytes=draw.choice([0, 1 << 15]))
    nodes, sequencers = draw.randrange(1, 4), draw.randrange(1, 4)
    world = CrashingWorld(program, seed, nodes=nodes, sequencers=sequencers, config=config)
    asked: dict[str, WireRequest] = {}
    while len(asked) < 20:
        if draw.random() < 0.15:
            name = f"r{len(asked)}"
            others = [draw.choice(KEYS) for _ in range(draw.randrange(1, 4))]
            worst = ("pass_on", others[:1]) if again else ("start", [others])
            function, arguments = worst if draw.random() < (0.7 if again else 0.2) else ("add", [1])
            asked[name] = WireRequest(name, "it", draw.choice("ab" if again else KEYS), function, arguments)
            world.send(asked[name])
        if draw.random() < 0.01:
            draw.choice([world.crash, world.overlap, world.save, world.forget])()
        world.act()
    world.heal()
    return world, asked


def said(world: CrashingWorld, kind: type[Any]) -> list[Any]:
    """Records of the epochs topic."""
    return [each for value in world.epochs_topic() for each in epoch_messages(value) if isinstance(each, kind)]


@pytest.mark.long
def test_what_ends_its_process_is_answered_alike_and_counts_nowhere() -> None:
    base, verdicts = int(os.environ["SIM_BASE_SEED"]), 0
    for seed in (*KEPT, *range(base, base + SEEDS)):
        world, asked = run(seed, again=False)
        outcomes = agreed_outcomes(world, seed)
        worst = {name for name, request in asked.items() if request.function == "start"}
        assert {name for name, outcome in outcomes.items() if outcome == CRASHED} == worst, f"seed {seed}"
        for key in KEYS:
            added = [name for name in sorted(asked.keys() - worst) if asked[name].key == key]
            counted = sorted(str(outcomes[name]).zfill(3) for name in added)
            assert counted == [str(n).zfill(3) for n in range(1, len(added) + 1)], f"seed {seed}, key {key}"
        stops, attempts = world.stops, len(said(world, Attempt))
        for _ in range(3):  # who reads it all again runs none of them
            world.crash()
        world.heal()
        assert world.stops == stops, f"seed {seed}"
        verdicts += len(said(world, Crashes))
        assert attempts and bool(stops) == bool(worst), f"seed {seed}: {stops} stops"
    assert verdicts


@pytest.mark.long
def test_what_ends_its_process_only_when_it_is_run_again_is_answered_alike() -> None:
    base, left_out = int(os.environ["SIM_BASE_SEED"]), 0
    for seed in (LEFT_OUT, *range(base, base + SEEDS)):
        world, asked = run(seed, again=True)
        outcomes = agreed_outcomes(world, seed)
        assert outcomes.keys() == asked.keys(), f"seed {seed}"
        for key in "ab":
            done = [name for name in asked if asked[name].key == key and outcomes[name] != CRASHED_AT_FOURS]
            counted = sorted(str(outcomes[name]).zfill(3) for name in done)
            assert counted == [str(n).zfill(3) for n in range(1, len(done) + 1)], f"seed {seed}, key {key}"
        left_out += len({(each.epoch, each.tid) for each in said(world, TimeoutProposal)})
    assert left_out
