"""Memory is bounded by open and unanswered windows, however long the input is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.sim.options import Options, draw
from nodes.sim.trace import Trace
from nodes.sim.world import World


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
        suspect_after_ms=300,
        watermark_max_ahead_ms=100,
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
        for life in world.lives:
            replica = life.node.replica
            own = sum(
                len(windows)
                for runner in life.node.work.runners.values()
                for track in (runner.task.scope.record, runner.task.scope.answers, runner.task.scope.private)
                for windows in track.contributions.values()
            )
            punctuations = sum(len(slot.punctuations) for slot in replica.slots)
            most = max(most, replica.open_windows() + own + punctuations)
        return world.all_fed and world.now_ms > options.feed_ms + 500

    assert world.run_until(look, 4 * options.feed_ms)
    return most


@pytest.mark.parametrize("case", ["query1", "running", "idle-running", "two-stages", "late-running", "await"])
def test_what_is_held_does_not_grow_with_the_input(case: str) -> None:
    short, long = most_kept(long_run(case, 300)), most_kept(long_run(case, 900))
    assert short > 0
    assert long <= 1.5 * short, f"{short} windows held for 300 records a partition, {long} for 900"
