"""Shards: whatever comes late, twice or never, what a shard has is the prefix that it is at, and it gets to the end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holon.outputs.shards import KeyShards, shard_of
from holon.tracks.contributions import ShardContributions
from wcrdt import GCounter, MapOf
from wcrdt.lattices.keyed.sharding import wires_by_shard
from wcrdt.replica.replica import SlotDelta, StateShape
from wcrdt.replica.shards import ShardReplica
from wcrdt.replica.slots import RECORD_START, OwnTrack, TrackDelta
from wcrdt.windows.assigners import Window

pytestmark = pytest.mark.laws
STATE, WINDOW, SHARDS, MINE = "s", Window(0, 10**6), 3, 1
BOTTOM: MapOf[int, int, int] = MapOf(GCounter())


class Maker:
    """One life of the partition, from a checkpoint at ``begin`` on: all before that is on the log."""

    def __init__(self, elements: list[tuple[int, int]], begin: int) -> None:
        self.elements = elements
        self.track = OwnTrack(RECORD_START, {STATE: BOTTOM})
        self.contributions = ShardContributions(self.track, {STATE: KeyShards(SHARDS)})
        self.go(begin)
        self.track.mark_broadcast()
        self.contributions.begin()

    @property
    def offset(self) -> int:
        return self.track.position[0]

    def go(self, to: int) -> None:
        for element in self.elements[self.offset : to]:
            self.track.insert(STATE, WINDOW, element, 0)
        self.track.position, self.track.watermark_ms = (to, 0), to

    def delta(self) -> tuple[TrackDelta | None, TrackDelta, list[int]]:
        """The contribution for the shard in question, the delta, and the shards that it names."""
        contributions = self.contributions.take()
        return contributions.get(MINE), self.track.take_delta(), sorted(contributions)


def expected(elements: list[tuple[int, int]], offset: int) -> Any:
    value = BOTTOM.bottom()
    for key, amount in elements[:offset]:
        if shard_of(key, SHARDS) == MINE:
            value.insert((key, amount), actor=0)
    return value.to_wire()


class Reader:
    """A node that answers for the shard: what it has is checked at each step."""

    def __init__(self, elements: list[tuple[int, int]]) -> None:
        self.elements = elements
        self.shard = ShardReplica({STATE: StateShape(STATE, BOTTOM)}, 0, [0])

    def take(self, contribution: TrackDelta) -> None:
        self.shard.contribution(SlotDelta(0, 0, contribution, None))
        self.check()

    def pass_by(self, delta: TrackDelta, named: list[int]) -> None:
        self.shard.took(SlotDelta(0, 0, delta, None), MINE in named)
        self.check()

    def check(self) -> None:
        offset = self.shard.position(0)[0]
        held = self.shard.replica.slots[0].record.contributions.get(STATE, {}).get(WINDOW, BOTTOM)
        assert held.to_wire() == expected(self.elements, offset)
        assert offset == 0 or self.shard.replica.frontier_ms <= offset


@pytest.mark.parametrize("seed", range(60))
def test_a_shard_is_the_prefix_that_it_is_at(seed: int) -> None:
    """Contributions and deltas are read in any order between them; some are lost, and some come from several lives."""
    rng = random.Random(seed)
    elements = [(rng.randint(0, rng.choice([3, 200])), rng.randint(1, 5)) for _ in range(rng.randint(1, 80))]
    losses, lives = rng.choice([(0.0, 1), (0.0, 3), (0.2, 3)])
    several = lives > 1
    reader, maker, saved = Reader(elements), Maker(elements, 0), 0
    contributions: list[TrackDelta] = []
    deltas: list[tuple[TrackDelta, list[int]]] = []
    while maker.offset < len(elements) or contributions or deltas:
        chance = rng.random()
        if chance < 0.4 and maker.offset < len(elements):
            maker.go(min(len(elements), maker.offset + rng.randint(1, 9)))
            contribution, delta, named = maker.delta()
            contributions += [] if contribution is None else [contribution] * rng.choice([1, 1, 2])
            deltas.append((delta, named))
            saved = maker.offset if rng.random() < 0.3 else saved
        elif chance < 0.45 and lives > 1:
            lives, maker = lives - 1, Maker(elements, saved)
        elif chance < 0.7 and contributions:
            contribution = contributions.pop(0)
            if rng.random() >= losses:
                reader.take(contribution)
        elif deltas:
            delta, named = deltas.pop(0)
            if rng.random() >= losses:
                reader.pass_by(delta, named)
    if losses or several:  # a contribution of a later life may have come before what leads there
        reader.take(maker.contributions.full(MINE))
    assert reader.shard.position(0)[0] == len(elements)


def test_a_delta_that_names_a_contribution_alone_brings_a_shard_nowhere() -> None:
    shard = ShardReplica({STATE: StateShape(STATE, BOTTOM)}, 0, [7])
    assert shard.position(0) == (7, 0)
    shard.took(SlotDelta(0, 0, TrackDelta((7, 0), (9, 0), 5, []), None), True)
    shard.took(SlotDelta(0, 0, TrackDelta((9, 0), (12, 0), 8, []), None), False)
    assert shard.position(0) == (7, 0)
    shard.contribution(SlotDelta(0, 0, TrackDelta((7, 0), (9, 0), 5, []), None))
    assert (shard.position(0), shard.replica.frontier_ms) == ((12, 0), 8)


def test_the_wire_of_one_shard_is_that_among_all() -> None:
    value, shards = BOTTOM.bottom(), KeyShards(SHARDS)
    value.insert_many((list(range(100)), [1] * 100), actor=3)
    assert {n: wires_by_shard(value, shards, n)[n] for n in range(SHARDS)} == wires_by_shard(value, shards)
