"""Random transactions on nodes with hot standbys, which become active whenever they like and take over in place."""

from __future__ import annotations

import os
from collections import Counter
from functools import cached_property
from random import Random

import pytest

from tests.sim.transactions.test_transactions import ask
from tests.sim.transactions_layouts import propose_layout
from tests.sim.transactions_oracle import Check, Tally, each_seed
from tests.sim.transactions_scripts import Scripts, make_versions
from tests.sim.transactions_strained import StrainedWorld
from tests.sim.transactions_world import Life
from transactional import events as e
from transactional.epochs.messages import to_bytes
from transactional.epochs.sequencer import EpochConfig
from transactional.requests.requests import WireRequest
from transactional.standby import reply_name

SEEDS = 120
STRAINED = 3
"""Of so many seeds one has units without an owner, and requests in bursts of so many."""
MOST_AT_ONCE = 20
MET = "promoted", "spoken", "killed_after", "paused", "orphaned", "bursts"


class StandbyWorld(StrainedWorld):
    """``promoted``: how often a standby took over in place, ``spoken``: how often one stood in.

    ``killed_after``: how often one was killed that had just taken over in place.
    """

    promoted = spoken = killed_after = 0
    fragile = 0.0
    """How often a new owner is killed as soon as it has taken over, or a few steps later."""

    @cached_property
    def doomed(self) -> list[tuple[int, Life]]:
        """Nodes that are killed after so many acts."""
        return []

    def _kill_doomed(self) -> None:
        for at, life in [each for each in self.doomed if each[0] <= self.acts]:
            self.doomed.remove((at, life))
            places = [place for place, each in enumerate(self.lives) if each is life]
            for place in places:
                self.killed_after += 1
                self.kill(place)

    def take(self, life: Life, partition: int) -> None:
        if not self._promote(life, self.sequencers + partition):
            super().take(life, partition)

    def take_sequencer(self, life: Life, sequencer: int) -> None:
        if not self._promote(life, sequencer):
            super().take_sequencer(life, sequencer)

    def _promote(self, life: Life, unit: int) -> bool:
        if unit not in life.node.standbys:
            return False
        self.promoted += 1
        if self.draw.random() < self.fragile:
            self.doomed.append((self.acts + self.draw.choice([0, 3, 20]), life))
        life.node.receive(e.StandbyPromoted(unit))
        life.keep(life.node.step(e.Ticked(), self.now_ms))
        return True

    def stand_by(self) -> None:
        """A node becomes a standby of what it does not work on yet."""
        life = self.draw.choice(self.lives)
        unit = self.draw.randrange(self.sequencers + self.partitions)
        number = unit - self.sequencers
        if unit in life.node.sequencers if number < 0 else number in life.node.partitions:
            return
        life.node.receive(e.StandbyBegun(unit))
        if number < 0:
            super().take_sequencer(life, unit)
        else:
            super().take(life, number)

    def act(self) -> None:
        """As before, and now and then a standby sees replies, becomes active, or holds back again."""
        self._kill_doomed()
        life = self.draw.choice(self.awake())
        if not life.node.standbys or self.draw.random() < 0.9:
            super().act()
            return
        self.acts += 1
        unit = self.draw.choice(sorted(life.node.standbys))
        standby = life.node.standbys[unit]
        if standby.is_active:
            life.node.receive(e.StandbyDeactivated(unit))
        elif self.draw.random() < 0.2 and standby.is_late(life.node.ledger, self.now_ms):
            self.spoken += 1
            life.node.receive(e.StandbyActivated(unit))
        elif unit >= self.sequencers and (replies := self.replies(unit - self.sequencers)):
            last = reply_name(to_bytes(self.draw.choice(replies)))
            life.node.receive(e.RepliesLogged(unit - self.sequencers, last))


def simulate(seed: int) -> tuple[Tally, StandbyWorld]:
    draw = Random(seed)
    config = EpochConfig(draw.choice([1, 3, 20]), interval_ms=draw.randrange(4), ahead=draw.randrange(1, 4))
    versions = make_versions(draw.randrange(1, 4))[: 3 if seed % 3 == 0 else 1]
    world = StandbyWorld(
        versions[0],
        draw.randrange(1 << 30),
        nodes=draw.randrange(2, 4),
        sequencers=draw.randrange(1, 4),
        config=config,
        versions=versions,
        seed=seed,
        strain=None if seed % STRAINED else seed,
    )
    scripts = Scripts(draw, draw.choice([1, 3, 10, 40]), late=len(versions) > 1)
    world.fragile, pauses = draw.choice([0.0, 0.2, 0.6]), draw.choice([0.0, 0.01, 0.05])
    crashes, saves = draw.choice([0.01, 0.03]), draw.choice([0.02, 0.1])
    happenings = [
        (crashes, world.crash),
        (draw.choice([0.05, 0.2]), world.stand_by),
        (saves, world.save),
        (0.01, world.forget),
        (pauses, lambda: world.pause(draw)),
    ]
    asked: list[WireRequest] = []
    for _ in range(draw.randrange(100, 500)):
        for _ in range(world.requests_due(draw, 0.07, MOST_AT_ONCE)):
            ask(world, draw, scripts, asked)
        world.versions.maybe_propose(world.log, 0.01)
        for odds, happens in happenings:
            if draw.random() < odds:
                happens()
        if world.placing.random() < 0.01:
            propose_layout(world)
        world.act()
    world.heal()
    return Check(world).run(), world


@pytest.mark.long
def test_standbys_take_over_in_place_and_lose_and_repeat_nothing() -> None:
    base, tally, met = int(os.environ["SIM_BASE_SEED"]), Tally(), Counter[str]()
    for found, world in each_seed(base, SEEDS, simulate):
        tally.add(found)
        met.update({name: getattr(world, name) for name in MET})
    assert tally.moved_keys and tally.partitions_made, tally
    assert all(met.values()) and tally.crashes and tally.committed and tally.reruns and tally.chained, (tally, met)
