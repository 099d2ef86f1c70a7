"""The life of a partition at a node: every stage meets every event, and random walks keep what a node relies on."""

from __future__ import annotations

from random import Random

import pytest

from nodes.machine.partition_lifecycle import (
    RUNNING,
    STANDBY,
    TRANSITIONS,
    Event,
    PartitionLifecycle,
    Stage,
    UnexpectedTransition,
)

WAYS: dict[Stage, list[Event]] = {
    Stage.LOADING: [],
    Stage.SCANNING: [Event.LOADED],
    Stage.OWNING: [Event.LOADED, Event.SCANNED],
    Stage.OFFERED: [Event.LOADED, Event.SCANNED, Event.OFFERED],
    Stage.HANDED: [Event.LOADED, Event.SCANNED, Event.OFFERED, Event.HANDED],
    Stage.RELEASED: [Event.LOADED, Event.SCANNED, Event.RELEASED],
    Stage.STANDBY_LOADING: [Event.STOOD_BY],
    Stage.STANDBY_SCANNING: [Event.STOOD_BY, Event.LOADED],
    Stage.STANDING_BY: [Event.STOOD_BY, Event.LOADED, Event.SCANNED],
    Stage.ENDED: [Event.ENDED],
}
"""Events that bring a partition into each stage."""

TABLE = """
                 LOADED            SCANNED      STOOD_BY         CLAIMED   OFFERED   HANDED    RELEASED  ENDED
LOADING          SCANNING          -            STANDBY_LOADING  -         -         -         -         ENDED
SCANNING         -                 OWNING       -                -         -         -         -         ENDED
OWNING           -                 -            STANDING_BY      -         OFFERED   -         RELEASED  ENDED
OFFERED          -                 -            STANDING_BY      -         OFFERED   HANDED    RELEASED  ENDED
HANDED           -                 -            STANDING_BY      -         HANDED    HANDED    RELEASED  ENDED
RELEASED         -                 -            STANDING_BY      -         RELEASED  RELEASED  -         ENDED
STANDBY_LOADING  STANDBY_SCANNING  -            -                LOADING   -         -         -         ENDED
STANDBY_SCANNING -                 STANDING_BY  -                SCANNING  -         -         -         ENDED
STANDING_BY      -                 -            -                OWNING    -         -         -         ENDED
ENDED            -                 -            -                -         -         -         -         -
"""


def expected() -> dict[tuple[Stage, Event], Stage | None]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    assert len(rows) == len(Stage) and len(head) == len(Event)
    return {
        (Stage[stage], Event[event]): None if then == "-" else Stage[then]
        for stage, *cells in rows
        for event, then in zip(head, cells, strict=True)
    }


def led_to(stage: Stage) -> PartitionLifecycle:
    lifecycle = PartitionLifecycle()
    for event in WAYS[stage]:
        lifecycle.happens(event)
    assert lifecycle.stage is stage
    return lifecycle


@pytest.mark.parametrize(("stage", "event"), list(expected()))
def test_every_stage_meets_every_event(stage: Stage, event: Event) -> None:
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
    draw, reached = Random(1), set[Stage]()
    for _ in range(500):
        lifecycle, seen = PartitionLifecycle(), list[Event]()
        while lifecycle.stage is not Stage.ENDED and len(seen) < 40:
            choices = [event for stage, event in TRANSITIONS if stage is lifecycle.stage]
            event = draw.choice(choices)
            assert not (lifecycle.stage in STANDBY and event in (Event.OFFERED, Event.HANDED, Event.RELEASED))
            lifecycle.happens(event)
            seen.append(event)
            reached.add(lifecycle.stage)
            if lifecycle.is_running:
                assert seen.count(Event.LOADED) == seen.count(Event.SCANNED) == 1
    assert reached >= set(Stage) - {Stage.LOADING} | {Stage.ENDED}
