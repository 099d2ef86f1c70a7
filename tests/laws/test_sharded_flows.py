"""Keys that partitions share out, of windows that are made of slices: results are those without ``sharded=True``.

Contributions come late, and some never. Then all that the partition has added is requested.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon import Job
from holon.dataflow.sliced import shards
from holon.tracks.task import PartitionTask
from nodes.sim.drawing import draw
from nodes.sim.driven.jobs import by_between, by_counts
from nodes.sim.flows.jobs import Given, by_early, by_sessions
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of
from tests.laws.forms import in_both_forms
from tests.laws.recut_runs import Run, over_the_wire, record_by_record
from wcrdt.lattices import maps
from wcrdt.replica.replica import SlotDelta
from wcrdt.replica.shards import ShardedDelta, ShardReplica
from wcrdt.replica.slots import TrackDelta

assert settings.default is not None
EXAMPLES = max(5, settings.default.max_examples // 20)  # one costs as much as several of other laws
OPTIONS = replace(draw(0, case="flow-sessions"), window_ms=48, delay_ms=5)
FLOWS: dict[str, Callable[..., Job]] = {
    "sessions": by_sessions, "early results": by_early, "windows by count": by_counts, "windows between": by_between,
}  # fmt: skip
LOST, LATE = 0.1, 0.5
WAITING_BYTES = 0, 100, 1_000_000


form = in_both_forms((shards, "LEAST_KEYS"), (maps, "LEAST_KEYS_ON_WIRE"))
"""Slices in the form that they have, or in that of many keys, on the wire too."""


class RunWithShards(Run):
    """Each partition has the keys alone that it answers for; contributions wait, and are on their way for some time."""

    def __init__(self, job: Job[Any], inputs: list[list[bytes]], rng: random.Random) -> None:
        self.shards: dict[int, ShardReplica] = {}
        self.on_their_way: list[tuple[int, SlotDelta]] = []
        super().__init__(job, inputs, rng)

    def fresh(self, partition: int) -> PartitionTask:
        program, count = self.job.program, len(self.inputs)
        shapes = {name: shape for name, shape in program.shapes().items() if name in program.sharded}
        shard = self.shards[partition] = ShardReplica(shapes, self.job.allowed_lateness_ms, [(0, 0)] * count)
        sizes = {name: output.partitions or count for name, output in self.job.outputs.items()}
        return PartitionTask(
            self.job, 7, partition, count, self.replica, output_partitions=sizes, upstream={}, layout=self.layout,
            shard=shard.replica,
        )  # fmt: skip

    def publish(self, task: PartitionTask) -> None:
        delta = task.take_delta(waiting_bytes=self.rng.choice(WAITING_BYTES))
        if delta is None:
            return
        assert isinstance(delta, ShardedDelta)
        named = sorted(delta.contributions)
        for to, track in delta.contributions.items():
            if self.rng.random() >= LOST:
                self.on_their_way.append((to, SlotDelta(delta.partition, 0, _sent(track), None)))
        broadcast = over_the_wire(SlotDelta(delta.partition, 0, delta.record, delta.window, later=delta.later))
        assert not self.replica.receive(broadcast).gap
        for to, shard in self.shards.items():
            shard.took(broadcast, to in named, delta.sent_through, waits=delta.waits)

    def collect(self, task: PartitionTask) -> None:
        while self.on_their_way and self.rng.random() >= LATE:
            to, contribution = self.on_their_way.pop(self.rng.randrange(len(self.on_their_way)))
            self.shards[to].contribution(contribution)
        if self.rng.random() < 0.2:
            self.request(task.partition)
        super().collect(task)

    def request(self, partition: int) -> None:
        """All that the others have added to the keys of a partition, where that is behind their deltas."""
        shard = self.shards[partition]
        for maker in self.tasks:
            wanted = self.replica.slots[maker.partition].record.position
            if shard.covered(maker.partition) < wanted <= maker.position:
                full = _sent(maker.full_contribution(partition))
                shard.contribution(SlotDelta(maker.partition, 0, full, None))


def _sent(track: TrackDelta) -> TrackDelta:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(track), type=TrackDelta)


@pytest.mark.parametrize("name", FLOWS)
@settings(max_examples=EXAMPLES)
@given(
    partitions=partitions_of_events(300, most=12), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 0, 30])
)
def test_results_do_not_depend_on_who_has_which_keys(
    name: str, partitions: list[list[Event]], seed: int, lateness_ms: int
) -> None:
    given = Given(Event, "events", "results", lateness_ms=lateness_ms)
    sharded, whole = FLOWS[name](OPTIONS, given, sharded=True), FLOWS[name](OPTIONS, given)
    payloads = payloads_of(partitions)
    run = RunWithShards(sharded, payloads, random.Random(seed))
    outcome, plain = run.run(largest=6, crash=0.1), record_by_record(whole, payloads)
    assert (outcome.results, outcome.counts) == (plain.results, plain.counts)
    assert outcome.snapshots == plain.snapshots, "open windows are equal to the byte, too"
    held = [set(slot.record.contributions) for slot in run.replica.slots]
    assert not any(names & sharded.program.sharded for names in held), "slices are on the broadcast"
