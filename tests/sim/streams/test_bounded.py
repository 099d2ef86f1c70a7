"""Memory is bounded by open and unanswered windows, however long the input is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import pytest

from nodes.sim.checks import whole
from nodes.sim.drawing import draw
from nodes.sim.options import Faults, Options
from nodes.sim.trace import Trace
from nodes.sim.world import World
from nodes.streams.jobs import JobTopics


def long_run(case: str, records: int) -> Options:
    """Windows of 50 ms of event time, about 5 records each; checkpoints about as often; no faults."""
    return replace(
        draw(1, case=case, calm=True),
        nodes=2,
        max_nodes=2,
        partitions=3,
        records=records,
        empty_partitions=0,
        window_ms=50,
        spread_ms=20,
        delay_ms=0,
        late=0.0,
        future=0.0,
        poison=0.0,
        marked=0.0,
        feed_ms=8 * records,
        preloaded=0.0,
        batch_max_records=30,
        broadcast_interval_ms=5,
        checkpoint_interval_ms=60,
        failure_timeout_ms=300,
        max_watermark_drift_ms=100,
        tick_ms=10,
        safety_ms=0,
        same_names=False,
    )


def most_kept(options: Options) -> int:
    """The most windows, values and punctuations that any node held at one time."""
    world = World(options, Trace())
    most = 0

    def look() -> bool:
        nonlocal most
        for process in world.processes:
            replica = process.node.replica
            own = sum(
                len(windows)
                for runner in process.node.work.runners.values()
                for track in (runner.task.scope.record, *runner.task.scope.answers, runner.task.scope.private)
                for windows in track.contributions.values()
            )
            punctuations = sum(len(slot.punctuations) for slot in replica.slots)
            most = max(most, replica.open_windows() + own + punctuations)
        return world.all_fed and world.now_ms > options.feed_ms + 500

    assert world.run_until(look, 4 * options.feed_ms)
    return most


@pytest.mark.long
@pytest.mark.parametrize("case", ["query1", "running", "idle-running", "two-stages", "late-running", "await"])
def test_what_is_held_does_not_grow_with_the_input(case: str) -> None:
    short, long = most_kept(long_run(case, 300)), most_kept(long_run(case, 900))
    assert short > 0
    assert long <= 1.5 * short, f"{short} windows held for 300 records a partition, {long} for 900"


@dataclass(slots=True)
class Kept:
    """The amounts at one moment: bytes ever broadcast, records that the job's own topics hold, objects of a node."""

    broadcast_bytes: int
    records: int
    windows: int
    members: int


def history_of(options: Options, looks: int) -> list[Kept]:
    """Look so often, at equal intervals of the input; half a second of virtual time is left out at both ends."""
    world = World(options, Trace())
    topics, seen = JobTopics.of(world.run), [0] * options.partitions
    found: list[Kept] = []
    sent = 0

    def look() -> Kept:
        nonlocal sent
        for partition in range(options.partitions):
            values = whole(world.log, topics.broadcast, partition, seen[partition]).values
            seen[partition] += len(values)
            sent += sum(map(len, values))
        own = [
            (topics.control, 0),
            (topics.control_checkpoints, 0),
            *((topics.broadcast, p) for p in range(options.partitions)),
        ]
        held = sum(world.log.end_offset(*where) - world.trimmed.get(where, 0) for where in own)
        windows = max((process.node.replica.open_windows() for process in world.processes), default=0)
        return Kept(
            sent, held, windows, max((len(process.node.ownership.members) for process in world.processes), default=0)
        )

    for number in range(looks):
        until_ms = 500 + (options.feed_ms - 1000) * (number + 1) // looks
        assert not world.run_until(lambda: False, until_ms)
        found.append(look())
    return found


@pytest.mark.long
@pytest.mark.parametrize("records", [1200, pytest.param(30_000, marks=pytest.mark.nightly)])
def test_topics_traffic_and_memory_do_not_grow_with_time(records: int) -> None:
    """240 windows, and 6,000 (100 times as many as in the test above) at night; nodes are killed and born all along."""
    options = replace(
        long_run("query1", records),
        merged_checkpoint_interval_ms=200,
        trims=True,
        forget_after_ms=1000,
        max_nodes=3,
        safety_ms=8 * records,
        faults=Faults(crash_at_point=0.0005, restart=0.05, join=0.001, stop_one=0.001),
    )
    found = history_of(options, 12)
    traffic = [after.broadcast_bytes - before.broadcast_bytes for before, after in pairwise(found)]
    early, late = traffic[:4], traffic[-4:]
    assert sum(late) <= 1.3 * sum(early), f"bytes broadcast between looks: {traffic}"
    for name in ("records", "windows", "members"):
        kept = [getattr(look, name) for look in found]
        # The median: after a kill there is more for a moment.
        assert median(kept[-6:]) <= 1.5 * median(kept[:6]), f"{name}: {kept}"
