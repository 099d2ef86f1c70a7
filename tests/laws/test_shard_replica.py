"""Shards: whatever comes late, twice or never, what a shard has is the prefix that it is at, and it gets to the end."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from holon.outputs.shards import KeyShards, shard_of
from holon.tracks.contributions import ShardContributions
from wcrdt import GCounter, MapOf
from wcrdt.lattices.keyed.sharding import wires_by_shard
from wcrdt.replica.replica import SlotDelta, StateShape
from wcrdt.replica.shards import ShardReplica
from wcrdt.replica.slots import RECORD_START, OwnTrack, Position, TrackDelta
from wcrdt.windows.assigners import Window

pytestmark = pytest.mark.laws
STATE, SHARDS, MINE = "s", 3, 1
LENGTH_MS, AHEAD_MS = 10, 15
Element = tuple[int, int, int]
"""Key, amount and event time, which is at least the element's offset: the watermark there."""
WAITING_BYTES = [0, 40, 400, 10**6]
BOTTOM: MapOf[int, int, int] = MapOf(GCounter())


class Maker:
    """One life of the partition, from a checkpoint at ``begin`` on: all before that is on the log.

    So many bytes of its contributions may wait.
    """

    def __init__(self, elements: list[Element], begin: int, waiting_bytes: int) -> None:
        self.elements = elements
        self.waiting_bytes = waiting_bytes
        self.track = OwnTrack(RECORD_START, {STATE: BOTTOM})
        self.contributions = ShardContributions(self.track, {STATE: KeyShards(SHARDS)})
        self.go(begin)
        self.track.mark_broadcast()
        self.contributions.begin()

    @property
    def offset(self) -> int:
        return self.track.position[0]

    def go(self, to: int) -> None:
        for key, amount, at_ms in self.elements[self.offset : to]:
            self.track.insert(STATE, window_of(at_ms), (key, amount), 0)
        self.track.position, self.track.watermark_ms = (to, 0), to

    def delta(self) -> tuple[TrackDelta | None, _Named]:
        """The contribution for the shard in question, and the delta."""
        through, most = self.contributions.sent_through, self.waiting_bytes
        waits = most > 0 and self.contributions.may_wait(self.track.watermark_ms, most)
        contributions = {} if waits else self.contributions.take()
        return contributions.get(MINE), _Named(
            self.track.take_delta(waits=waits), MINE in contributions, through, waits
        )


class _Named(NamedTuple):
    """As ``ShardReplica.took`` takes it."""

    delta: TrackDelta
    named: bool
    sent_through: Position
    waits: bool


def window_of(at_ms: int) -> Window:
    return Window(at_ms // LENGTH_MS * LENGTH_MS, (at_ms // LENGTH_MS + 1) * LENGTH_MS)


def expected(elements: list[Element], offset: int) -> dict[Window, Any]:
    """By window, the wire of the shard in question."""
    values: dict[Window, Any] = {}
    for key, amount, at_ms in elements[:offset]:
        if shard_of(key, SHARDS) == MINE:
            values.setdefault(window_of(at_ms), BOTTOM.bottom()).insert((key, amount), actor=0)
    return {window: value.to_wire() for window, value in values.items()}


class Reader:
    """A node that answers for the shard: what it has is checked at each step."""

    def __init__(self, elements: list[Element]) -> None:
        self.elements = elements
        self.shard = ShardReplica({STATE: StateShape(STATE, BOTTOM)}, 0, [(0, 0)])

    def take(self, contribution: TrackDelta) -> None:
        self.shard.contribution(SlotDelta(0, 0, contribution, None))
        self.check()

    def pass_by(self, read: _Named) -> None:
        self.shard.took(SlotDelta(0, 0, read.delta, None), read.named, read.sent_through, waits=read.waits)
        self.check()

    def check(self) -> None:
        offset, frontier_ms = self.shard.position(0)[0], self.shard.replica.frontier_ms
        windows = self.shard.replica.slots[0].record.contributions.get(STATE, {})
        held = {window: value.to_wire() for window, value in windows.items()}
        assert held == expected(self.elements, offset)
        complete = expected(self.elements, len(self.elements))
        for window in complete.keys() | held.keys():
            assert window.end_ms > frontier_ms or held.get(window) == complete.get(window), f"{window} at {frontier_ms}"
        covered = self.shard.covered(0)[0]
        assert covered >= offset and (covered == 0 or frontier_ms == covered)


@pytest.mark.parametrize("seed", range(60))
def test_a_shard_is_the_prefix_that_it_is_at(seed: int) -> None:
    """Contributions and deltas are read in any order between them; some are lost, and some come from several lives."""
    rng = random.Random(seed)
    keys, ahead_ms = rng.choice([3, 200]), rng.choice([0, AHEAD_MS])
    count = rng.randint(1, 80)
    elements = [(rng.randint(0, keys), rng.randint(1, 5), at + rng.randint(0, ahead_ms)) for at in range(count)]
    losses, lives = rng.choice([(0.0, 1), (0.0, 3), (0.2, 3)])
    several = lives > 1
    reader, maker, saved = Reader(elements), Maker(elements, 0, rng.choice(WAITING_BYTES)), 0
    contributions: list[TrackDelta] = []
    deltas: list[_Named] = []
    while maker.offset < len(elements) or contributions or deltas:
        chance = rng.random()
        if chance < 0.4 and maker.offset < len(elements):
            maker.go(min(len(elements), maker.offset + rng.randint(1, 9)))
            contribution, delta = maker.delta()
            contributions += [] if contribution is None else [contribution] * rng.choice([1, 1, 2])
            deltas.append(delta)
            saved = maker.offset if rng.random() < 0.3 and not delta.waits else saved
        elif chance < 0.45 and lives > 1:
            lives, maker = lives - 1, Maker(elements, saved, rng.choice(WAITING_BYTES))
        elif chance < 0.7 and contributions:
            contribution = contributions.pop(0)
            if rng.random() >= losses:
                reader.take(contribution)
        elif deltas:
            delta = deltas.pop(0)
            if rng.random() >= losses:
                reader.pass_by(delta)
    if losses or several:  # a contribution of a later life may have come before what leads there
        reader.take(maker.contributions.full(MINE))
    assert reader.shard.covered(0)[0] == len(elements)


def test_a_delta_that_names_a_contribution_alone_brings_a_shard_nowhere() -> None:
    shard = ShardReplica({STATE: StateShape(STATE, BOTTOM)}, 0, [(7, 0)])
    assert shard.position(0) == (7, 0)
    shard.took(SlotDelta(0, 0, TrackDelta((7, 0), (9, 0), 5, []), None), True)
    shard.took(SlotDelta(0, 0, TrackDelta((9, 0), (12, 0), 8, []), None), False)
    assert shard.position(0) == (7, 0)
    shard.contribution(SlotDelta(0, 0, TrackDelta((7, 0), (9, 0), 5, []), None))
    assert (shard.position(0), shard.replica.frontier_ms) == ((12, 0), 8)


def test_a_full_slot_brings_the_watermark_to_a_shard_that_has_all_before_it() -> None:
    shard = ShardReplica({STATE: StateShape(STATE, BOTTOM)}, 0, [(7, 1)])
    shard.took(SlotDelta(0, 0, TrackDelta((9, 0), (9, 0), 20, [], full=True), None), False)
    assert shard.replica.frontier_ms < 5
    shard.took(SlotDelta(0, 0, TrackDelta((7, 1), (7, 1), 5, [], full=True), None), False)
    assert (shard.position(0), shard.replica.frontier_ms) == ((7, 1), 5)


def test_the_wire_of_one_shard_is_that_among_all() -> None:
    value, shards = BOTTOM.bottom(), KeyShards(SHARDS)
    value.insert_many((list(range(100)), [1] * 100), actor=3)
    assert {n: wires_by_shard(value, shards, n)[n] for n in range(SHARDS)} == wires_by_shard(value, shards)
