"""A simulated transactional job under strain: nodes that get no turns, units that nobody owns, requests in bursts.

Also batches of copies ahead of a move whose size changes at any time, with the pace that a node sets.
"""

from __future__ import annotations

from functools import cached_property
from random import Random
from typing import Any

from nodes.sim.case import FOURTEENTH_SEED
from tests.sim.transactions_world import Life, World
from transactional import events as e

PACES = 1, 100, 400, 1 << 17, 1 << 17
"""Bytes of a batch of copies: from one item to all, of one record or many."""
NEW_STEP_BYTES = 1, 1, 100, 1 << 17
"""Of one step, in new seeds: mostly less than of a batch, so that it has several records."""


class StrainedWorld(World):
    """``paused``: a node stood still. ``orphaned``: units that waited for an owner. ``bursts``: of requests."""

    paused = orphaned = bursts = 0
    acts = quiet = 0
    pause_odds = orphan_odds = burst_odds = 0.0

    def __init__(self, *args: Any, strain: int | None = None, seed: int = 0, **more: Any) -> None:
        """``strain``: the seed of its draws, None: there is none. ``seed``: of the run; new ones draw paces."""
        if seed >= FOURTEENTH_SEED:
            self.step_bytes = NEW_STEP_BYTES
        super().__init__(*args, **more)
        self.pacing = Random(seed ^ 0x9ACE)
        self.pace_odds = self.pacing.choice([0.0, 0.1, 0.5, 0.5]) if seed >= FOURTEENTH_SEED else 0.0
        self.straining = Random(strain)
        if strain is not None:
            self.pause_odds = self.straining.choice([0.0, 0.005, 0.02])
            self.orphan_odds = self.straining.choice([0.0, 0.5, 1.0])
            self.burst_odds = self.straining.choice([0.0, 0.3, 1.0])

    @cached_property
    def orphans(self) -> list[tuple[int, int | None, int | None]]:
        """After so many acts somebody takes this partition, or this sequencer."""
        return []

    @property
    def is_strained(self) -> bool:
        """Whether nodes stood still, units had no owner, or requests came at once."""
        return bool(self.paused or self.orphaned or self.bursts)

    def requests_due(self, draw: Random, odds: float, left: int) -> int:
        """How many of ``left`` requests come now: one at these odds, or a burst, and then none for as long."""
        if self.quiet:
            self.quiet -= 1
            return 0
        if not left or draw.random() >= odds:
            return 0
        if not self.burst_odds or self.straining.random() >= self.burst_odds:
            return 1
        self.bursts += 1
        count = self.straining.randrange(1, left + 1)
        self.quiet = int((count - 1) / odds)
        return count

    def pause(self, draw: Random | None = None) -> None:
        """A node stands still while the others go on."""
        draw = self.straining if draw is None else draw
        self.paused += 1
        draw.choice(self.lives).asleep_until = self.acts + draw.choice([5, 30, 150])

    def pace(self) -> None:
        """Batches of copies of some node have another size from now on."""
        life = self.pacing.choice(self.lives)
        life.keep(life.node.step(e.CopiesPaced(self.pacing.choice(PACES)), self.now_ms))

    def awake(self) -> list[Life]:
        return [life for life in self.lives if life.asleep_until <= self.acts] or self.lives

    def act(self) -> None:
        self.acts += 1
        if self.pause_odds and self.straining.random() < self.pause_odds:
            self.pause()
        self._adopt(self.acts)
        if self.pace_odds and self.pacing.random() < self.pace_odds:
            self.pace()
        super().act()

    def kill(self, place: int) -> None:
        """As before; or its units have no owner for a while."""
        if not self.orphan_odds or self.straining.random() >= self.orphan_odds:
            super().kill(place)
            return
        self.crashes += 1
        dead = self.lives[place]
        self.lives[place] = self._born()
        due = self.acts + self.straining.choice([20, 100, 400])
        found = [(due, partition, None) for partition in sorted(dead.node.partitions)]
        found += [(due, None, sequencer) for sequencer in sorted(dead.node.sequencers)]
        self.orphaned += len(found)
        self.orphans += found

    def heal(self, limit: int = 100_000) -> None:
        for life in self.lives:
            life.asleep_until = 0
        self.orphan_odds = 0.0
        self._adopt(None)
        super().heal(limit)

    def _adopt(self, acts: int | None) -> None:
        """Those that are due by then; None: all."""
        for each in [each for each in self.orphans if acts is None or each[0] <= acts]:
            self.orphans.remove(each)
            _, partition, sequencer = each
            if partition is not None:
                self.take(self.straining.choice(self.lives), partition)
            if sequencer is not None:
                self.take_sequencer(self.straining.choice(self.lives), sequencer)
