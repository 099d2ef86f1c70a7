"""Random transactions on nodes with hot standbys, which speak whenever they like and take over in place."""

from __future__ import annotations

import os
from random import Random

from tests.sim.test_transactions import ask
from tests.sim.transactions_oracle import Check, Tally, each_seed
from tests.sim.transactions_scripts import Scripts, make_program
from tests.sim.transactions_world import Life, World
from transactional import node as n
from transactional.messages import to_bytes
from transactional.requests import WireRequest
from transactional.sequencer import EpochConfig
from transactional.standby import reply_name

SEEDS = 120


class StandbyWorld(World):
    """``promoted``: how often a standby took over in place, ``spoken``: how often one stood in."""

    promoted = spoken = 0

    def take(self, life: Life, partition: int) -> None:
        if not self._promote(life, self.sequencers + partition):
            super().take(life, partition)

    def take_sequencer(self, life: Life, sequencer: int) -> None:
        if not self._promote(life, sequencer):
            super().take_sequencer(life, sequencer)

    def _promote(self, life: Life, unit: int) -> bool:
        if unit not in life.node.standing_by:
            return False
        self.promoted += 1
        life.node.speak(unit, for_good=True)
        life.keep(life.node.step(n.Ticked(), self.now_ms))
        return True

    def stand_by(self) -> None:
        """A node becomes a standby of what it does not work on yet."""
        life = self.draw.choice(self.lives)
        unit = self.draw.randrange(self.sequencers + self.program.partitions)
        number = unit - self.sequencers
        if unit in life.node.sequencers if number < 0 else number in life.node.partitions:
            return
        life.node.stand_by(unit)
        if number < 0:
            super().take_sequencer(life, unit)
        else:
            super().take(life, number)

    def act(self) -> None:
        """As before, and now and then a standby sees replies, speaks, or is silent again."""
        life = self.draw.choice(self.lives)
        if not life.node.standing_by or self.draw.random() < 0.9:
            super().act()
            return
        unit = self.draw.choice(sorted(life.node.standing_by))
        standby = life.node.standing_by[unit]
        if standby.speaks:
            standby.speaks = False
        elif self.draw.random() < 0.2 and standby.is_late(life.node.ledger, self.now_ms):
            self.spoken += 1
            life.node.speak(unit, for_good=False)
        elif unit >= self.sequencers and (replies := self.replies(unit - self.sequencers)):
            standby.saw_reply(reply_name(to_bytes(self.draw.choice(replies))))


def simulate(seed: int) -> tuple[Tally, StandbyWorld]:
    draw = Random(seed)
    config = EpochConfig(draw.choice([1, 3, 20]), interval_ms=draw.randrange(4), ahead=draw.randrange(1, 4))
    world = StandbyWorld(
        make_program(draw.randrange(1, 4)),
        draw.randrange(1 << 30),
        nodes=draw.randrange(2, 4),
        sequencers=draw.randrange(1, 4),
        config=config,
    )
    scripts = Scripts(draw, draw.choice([1, 3, 10, 40]))
    asked: list[WireRequest] = []
    for _ in range(draw.randrange(100, 500)):
        if draw.random() < 0.07:
            ask(world, draw, scripts, asked)
        for odds, happens in [(0.01, world.crash), (0.05, world.stand_by), (0.02, world.save), (0.01, world.forget)]:
            if draw.random() < odds:
                happens()
        world.act()
    world.heal()
    return Check(world).run(), world


def test_standbys_take_over_in_place_and_lose_and_repeat_nothing() -> None:
    base, tally, promoted, spoken = int(os.environ["SIM_BASE_SEED"]), Tally(), 0, 0
    for found, world in each_seed(base, SEEDS, simulate):
        tally.add(found)
        promoted, spoken = promoted + world.promoted, spoken + world.spoken
    assert promoted and spoken and tally.crashes and tally.committed and tally.reruns, (tally, promoted, spoken)
