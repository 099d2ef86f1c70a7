"""`holon replay --check` names the first record at which a job is no function of its input, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.replay.comparison import RecordPlace, prefix, replay_twice
from nodes.streams.jobs import input_layout, load_job
from tests.integration.fleet_support import Command, Stage
from tests.integration.jobs_random import FROM_ID, KINDS

JOB = "tests.integration.jobs_random:job"
CHANCE = tuple(kind for kind in KINDS if kind not in ("none", "undeclared state"))


def chance(kind: str) -> str:
    return f"{JOB}?kind={KINDS.index(kind)}"


def first(stage: Stage, records: int) -> list[RecordPlace]:
    """Of each partition."""
    return prefix(stage.log, input_layout(stage.log, load_job(JOB)), records)


def first_offset(stage: Stage) -> int:
    """Of partition 0, where the replays begin, the first event that shows chance."""
    return next(offset for offset, event in enumerate(stage.events[0]) if event.id >= FROM_ID)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, partitions=2)
    stage.feed(400)
    yield stage
    stage.log.close()


@pytest.mark.parametrize("kind", CHANCE)
def test_first_divergent_record_is_named(stage: Stage, kind: str) -> None:
    found = replay_twice(chance(kind), "chance", None, {"in": 2}, first(stage, 100))
    assert not found.deterministic and found.divergence is not None
    assert found.divergence.offset == first_offset(stage) and found.divergence.first != found.divergence.second
    assert ("state of partition" in found.divergence.what) is (kind == "state")


def test_state_that_is_not_declared_shows_when_it_is_lost(stage: Stage) -> None:
    found = replay_twice(chance("undeclared state"), "chance", None, {"in": 2}, first(stage, 200))
    assert found.divergence is not None and "output main" in found.divergence.what
    assert found.divergence.offset == 100, "the first record after the loss"


@pytest.mark.long
def test_command_tells_good_from_bad_and_leaves_the_log_alone(stage: Stage) -> None:
    topics = stage.log.topics()
    with Command("replay", JOB, "--check", "--json", stage=stage) as command:
        good = command.json()
    assert (good["deterministic"], good["records"], good["divergence"]) == (True, 400, None)
    with Command("replay", chance("random"), "--check", "--records", "50", stage=stage) as command:
        code, _, err = command.finish()
    assert code == 1 and f"offset {first_offset(stage)}, in output main" in err and "not deterministic" in err
    assert stage.log.topics() == topics


@pytest.mark.parametrize(
    "reference",
    ["tests.integration.jobs_mixed:job", "tests.integration.jobs_odd:guarded", "tests.integration.jobs_random:job"],
)
def test_good_jobs_are_found_good(stage: Stage, reference: str) -> None:
    job = load_job(reference)
    found = replay_twice(reference, job.name, None, {"in": 2}, first(stage, 200))
    assert found.deterministic and found.error is None and found.records == 400
