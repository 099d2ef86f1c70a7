"""The life of a partition at a node: every stage meets every event, and random walks keep what a node relies on."""

from __future__ import annotations

from random import Random

import pytest

from nodes.machine.partition_lifecycle import (
    RUNNING,
    STANDBY,
    TRANSITIONS,
    LifecycleEvent,
    PartitionLifecycle,
    PartitionStage,
    UnexpectedTransition,
)

WAYS: dict[PartitionStage, list[LifecycleEvent]] = {
    PartitionStage.LOADING: [],
    PartitionStage.SCANNING: [LifecycleEvent.LOADED],
    PartitionStage.OWNING: [LifecycleEvent.LOADED, LifecycleEvent.SCANNED],
    PartitionStage.OFFERED: [LifecycleEvent.LOADED, LifecycleEvent.SCANNED, LifecycleEvent.OFFERED],
    PartitionStage.HANDED: [
        LifecycleEvent.LOADED,
        LifecycleEvent.SCANNED,
        LifecycleEvent.OFFERED,
        LifecycleEvent.HANDED,
    ],
    PartitionStage.RELEASED: [LifecycleEvent.LOADED, LifecycleEvent.SCANNED, LifecycleEvent.RELEASED],
    PartitionStage.STANDBY_LOADING: [LifecycleEvent.STANDBY_BEGUN],
    PartitionStage.STANDBY_SCANNING: [LifecycleEvent.STANDBY_BEGUN, LifecycleEvent.LOADED],
    PartitionStage.STANDBY_RUNNING: [LifecycleEvent.STANDBY_BEGUN, LifecycleEvent.LOADED, LifecycleEvent.SCANNED],
    PartitionStage.ENDED: [LifecycleEvent.ENDED],
}
"""Events that bring a partition into each stage."""

TABLE = """
                 LOADED           SCANNED         STANDBY_BEGUN   CLAIMED  OFFERED  HANDED   RELEASED ENDED
LOADING          SCANNING         -               STANDBY_LOADING -        -        -        -        ENDED
SCANNING         -                OWNING          -               -        -        -        -        ENDED
OWNING           -                -               STANDBY_RUNNING -        OFFERED  -        RELEASED ENDED
OFFERED          -                -               STANDBY_RUNNING -        OFFERED  HANDED   RELEASED ENDED
HANDED           -                -               STANDBY_RUNNING -        HANDED   HANDED   RELEASED ENDED
RELEASED         -                -               STANDBY_RUNNING -        RELEASED RELEASED -        ENDED
STANDBY_LOADING  STANDBY_SCANNING -               -               LOADING  -        -        -        ENDED
STANDBY_SCANNING -                STANDBY_RUNNING -               SCANNING -        -        -        ENDED
STANDBY_RUNNING  -                -               -               OWNING   -        -        -        ENDED
ENDED            -                -               -               -        -        -        -        -
"""


def expected() -> dict[tuple[PartitionStage, LifecycleEvent], PartitionStage | None]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    assert len(rows) == len(PartitionStage) and len(head) == len(LifecycleEvent)
    return {
        (PartitionStage[stage], LifecycleEvent[event]): None if then == "-" else PartitionStage[then]
        for stage, *cells in rows
        for event, then in zip(head, cells, strict=True)
    }


def led_to(stage: PartitionStage) -> PartitionLifecycle:
    lifecycle = PartitionLifecycle()
    for event in WAYS[stage]:
        lifecycle.happens(event)
    assert lifecycle.stage is stage
    return lifecycle


@pytest.mark.parametrize(("stage", "event"), list(expected()))
def test_every_stage_meets_every_event(stage: PartitionStage, event: LifecycleEvent) -> None:
    lifecycle, then = led_to(stage), expected()[stage, event]
    if then is None:
        with pytest.raises(UnexpectedTransition, match=f"{event.value} while the partition is {stage.value}"):
            lifecycle.happens(event)
        assert lifecycle.stage is stage
    else:
        lifecycle.happens(event)
        assert lifecycle.stage is then
    assert lifecycle.is_running == (lifecycle.stage in RUNNING)


def test_no_walk_runs_without_its_checkpoint_or_releases_what_a_standby_holds() -> None:
    draw, reached = Random(1), set[PartitionStage]()
    for _ in range(500):
        lifecycle, seen = PartitionLifecycle(), list[LifecycleEvent]()
        while lifecycle.stage is not PartitionStage.ENDED and len(seen) < 40:
            choices = [event for stage, event in TRANSITIONS if stage is lifecycle.stage]
            event = draw.choice(choices)
            assert not (
                lifecycle.stage in STANDBY
                and event in (LifecycleEvent.OFFERED, LifecycleEvent.HANDED, LifecycleEvent.RELEASED)
            )
            lifecycle.happens(event)
            seen.append(event)
            reached.add(lifecycle.stage)
            if lifecycle.is_running:
                assert seen.count(LifecycleEvent.LOADED) == seen.count(LifecycleEvent.SCANNED) == 1
    assert reached >= set(PartitionStage) - {PartitionStage.LOADING} | {PartitionStage.ENDED}
