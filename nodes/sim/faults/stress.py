"""Stress: what the newer seeds meet much more often, and what happens then. Standbys, stores that take long to save and
to load, kills right after a node took a partition over, and memory pressure.

Two rules for this file: it draws from streams of its own; seeds below ``FIRST_SEED`` keep what they drew before.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.sim.case import FIRST_SEED, TENTH_SEED

if TYPE_CHECKING:
    from nodes.sim.faults.stage import Stage
    from nodes.sim.node_process import NodeProcess
    from nodes.sim.options import Options

SHORTEST_TURN_MS, LONGEST_TURN_MS = 100, 5000
SHORTEST_SPELL_MS = 2000
FULL_SHARE, LONGEST_FULL_MS = 0.17, 2000
POINTS = 4
"""A turn pauses at one of so many of its first points between two effects, or after it."""


def replicas(seed: int, rng: random.Random) -> int:
    """How many replicas of a partition there are."""
    return rng.choice([1, 2, 2, 3] if seed >= FIRST_SEED else [1, 1, 2, 3])


def stressed(options: Options) -> Options:
    """With a slow store in half of the seeds, kills of new owners in half, and memory pressure in a quarter.

    A plan that demands how soon things happen, or that a loss is noticed, has no fault beside it and stays as it is.
    """
    if options.seed < FIRST_SEED or options.isolation or options.truncation:
        return options
    rng = random.Random(f"options {options.seed} {options.case} stress")
    slow, killed, pressed = (rng.random() < share for share in (0.5, 0.5, 0.25))
    if slow:
        options = replace(
            options, save_ms=rng.choice([10, 60, 300, 1000]), load_ms=rng.choice([0, options.load_ms, 60, 300])
        )
    if killed:
        faults = replace(
            options.faults,
            kill_one=rng.choice([0.001, 0.004]),
            kill_promoted=rng.choice([0.3, 0.8]),
            restart=max(options.faults.restart, 0.03),
        )
        options = replace(options, faults=faults)
    return _with_full_disks(_under_pressure(options, rng) if pressed else options)


def _with_full_disks(options: Options) -> Options:
    """In a sixth of the newest seeds. A node without room for a record ends, as on the embedded log."""
    rng = random.Random(f"options {options.seed} {options.case} full disks")
    rate = rng.choice([0.0005, 0.002])
    if options.seed < TENTH_SEED or rng.random() >= FULL_SHARE:
        return options
    faults = replace(options.faults, full=rate, restart=max(options.faults.restart, 0.03))
    return replace(options, faults=faults)


def _under_pressure(options: Options, rng: random.Random) -> Options:
    """Long enough for some spells, with input all the time."""
    safety_ms = rng.choice([6000, 12_000])
    return replace(
        options,
        faults=replace(options.faults, pressure=rng.choice([0.0005, 0.002])),
        safety_ms=safety_ms,
        feed_ms=safety_ms * 3 // 4 if options.feed_ms else 0,
        tick_ms=max(5, options.tick_ms),
    )


class Stress:
    """The nodes under pressure, and the nodes to kill, with their times."""

    def __init__(self, world: Stage) -> None:
        self.world = world
        self._pressed_until_ms: dict[str, int] = {}
        self._doomed: list[tuple[int, NodeProcess]] = []
        self._full_until_ms: dict[str, int] = {}  # by node, "" for all

    def check(self) -> None:
        """To be called at every step of the safety phase."""
        world, faults, rng = self.world, self.world.faults, self.world.rng
        if faults.pressure and rng.random() < faults.pressure and world.processes:
            until_ms = world.now_ms + rng.randint(SHORTEST_SPELL_MS, world.options.safety_ms)
            for process in rng.sample(world.processes, rng.randint(1, len(world.processes))):
                self._pressed_until_ms[process.name] = until_ms
                world.trace.add(world.now_ms, "pressed", f"{process.name} until {until_ms} ms")
        if faults.full and rng.random() < faults.full:
            node = rng.choice(["", *(process.name for process in world.processes)])
            self._full_until_ms[node] = until_ms = world.now_ms + rng.randint(1, LONGEST_FULL_MS)
            world.trace.add(world.now_ms, "full", f"{node or 'for all'} until {until_ms} ms")
        if faults.kill_one and rng.random() < faults.kill_one and world.processes:
            world.kill(rng.choice(world.processes))
        due, self._doomed = (
            [process for at_ms, process in self._doomed if at_ms <= world.now_ms],
            [each for each in self._doomed if each[0] > world.now_ms],
        )
        for process in due:
            if not process.dead and process.node.left is None:
                world.trace.add(world.now_ms, "new-owner-killed", process.name)
                world.kill(process)

    def is_full(self, node: str) -> bool:
        """Whether the log has no room for what this node writes."""
        until_ms = max(self._full_until_ms.get(node, 0), self._full_until_ms.get("", 0))
        return self.world.now_ms < until_ms and not self.world.healed

    def begins(self, process: NodeProcess) -> None:
        """A node is about to take its turn: for how long will it pause in it, and where?"""
        world, rng = self.world, self.world.rng
        if world.now_ms >= self._pressed_until_ms.get(process.name, 0) or world.healed:
            return
        times = LONGEST_TURN_MS / SHORTEST_TURN_MS
        process.stall_ms, process.stall_point = int(SHORTEST_TURN_MS * times ** rng.random()), rng.randrange(POINTS)

    def ended(self, process: NodeProcess) -> None:
        """It has taken it. The rest of its pause comes after; a node that has become an owner may be killed."""
        world, rng = self.world, self.world.rng
        if process.stall_ms and not world.healed:
            process.paused_until_ms = world.now_ms + process.stall_ms
        process.stall_ms = 0
        taken = process.node.work.replicas.promotions + process.node.steals
        if taken == process.taken:
            return
        process.taken = taken
        if world.faults.kill_promoted and rng.random() < world.faults.kill_promoted:
            soon_ms = rng.choice([0, world.options.save_ms, 2 * world.options.checkpoint_interval_ms])
            self._doomed.append((world.now_ms + rng.randint(0, soon_ms), process))


__all__ = ["LONGEST_TURN_MS", "Stress", "replicas", "stressed"]
