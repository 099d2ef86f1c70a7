"""Law: gathered inserts are seen as the same inserts one by one are, whoever looks and wherever runs are cut."""

from __future__ import annotations

import random
from typing import Any, Literal

import msgspec
import pytest

from holon import Job, Json, Source
from holon.errors import UserFunctionError
from holon.job import UNSTABLE
from holon.program import scope
from holon.testing import JobTestDriver
from tests.unit.holon.tracks.gathered_programs import Event, Obedient, Waiting, records

Policy = Literal["fail", "dead-letter"]
SEEDS = 30


class OneByOne:
    """In place of ``gathering``: each element goes into its windows at once."""

    def __call__(self, zero: Any) -> None:
        return None


def seen(function: type, events: list[Event], cuts: list[int], policy: Policy, look: bool) -> dict[str, Any]:
    """All that comes out of a run: results with identities, counts, checkpoints, and what another node knows.

    ``look``: also after each run, which holds for equal cuts alone; results of peeks depend on the cuts too.
    """
    source: Source[Any] = Source("events", Json(Event), lambda event: event["ts"])
    test = JobTestDriver(Job("law", source, function, output="out", on_error=policy, window_retention_ms=200), 2)
    between: list[Any] = []
    error, start = "", 0
    try:
        for cut in cuts:
            test.feed(0, *events[start:cut])
            others = [number for number in range(start, cut) if number % 9 == 8]  # the same ones whatever the cuts
            test.feed(1, *({"ts": events[number]["ts"], "do": [["count", 1, 0]]} for number in others))
            start = cut
            if look:
                between.append(state(test))
        test.finish()
    except UserFunctionError as failure:
        return {"error": str(failure)}
    # Where runs are cut decides whether a record or a window is answered first, and what a peek finds.
    outputs = {name: sorted(test.raw_outputs(name), key=repr) for name in test.job.outputs if look or name != UNSTABLE}
    return {"error": error, "between": between, "outputs": outputs, "counts": test.counts, "state": state(test)}


def state(test: JobTestDriver) -> list[Any]:
    """The checkpoints of both partitions where they stand between records, and their slots as another node has them."""
    saved = [task.snapshot().to_bytes() for task in test.tasks if not task.waiting]
    return [*saved, *(msgspec.msgpack.encode(test.replica.full(partition)) for partition in (0, 1))]


def ends(draw: random.Random, count: int) -> list[int]:
    return sorted({*(draw.randrange(count) for _ in range(draw.randrange(6))), count})


def check_gathered(seed: int, function: type, policy: Policy) -> None:
    """Draw records, and run them gathered and one by one, with three cuts."""
    draw = random.Random(seed)
    events = records(draw, 60, fails=policy == "dead-letter", peeks=seed % 2 == 0)
    cuts = ends(draw, len(events))
    gathered = seen(function, events, cuts, policy, True)
    again = seen(function, events, ends(draw, len(events)), policy, False)
    single = seen(function, events, list(range(1, len(events) + 1)), policy, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scope, "gathering", OneByOne())
        assert seen(function, events, cuts, policy, True) == gathered
        for other in (again, single):
            assert other == seen(function, events, cuts, policy, False)


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize("function", [Obedient, Waiting])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_gathered_and_one_by_one(seed: int, function: type, policy: Policy) -> None:
    check_gathered(seed, function, policy)
