"""Backlogs under an idle timeout on real nodes, some of which are killed: every answer exact, no record late.

``IDLE_SEEDS=200-220`` runs these seeds in place of the usual ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fleet_support import Stage
from tests.integration.jobs_idle import job
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.shares import share_of

FIRST, LAST = map(int, os.environ.get("IDLE_SEEDS", "1-2").split("-"))


@pytest.fixture(params=share_of(["embedded", "kafka"], 2, __name__))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=range(FIRST, LAST + 1))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


@pytest.fixture
def stage(tmp_path: Path, kind: str, rng: random.Random) -> Iterator[Stage]:
    settings = (f"node.batch_max_records={rng.choice([20, 50, 200])}", f"node.replicas={rng.choice([1, 2, 2])}")
    partitions = rng.randint(2, 5)
    if kind == "kafka":
        stage: Stage = KafkaStage(tmp_path, session_bootstrap(), *settings, partitions=partitions)
    else:
        stage = Stage(tmp_path, *settings, partitions=partitions)
    stage.reference = f"{job.__module__}:job"
    yield stage
    stage.log.close()


@pytest.mark.long
def test_a_backlog_is_not_silent_whoever_works_it_off(stage: Stage, rng: random.Random) -> None:
    stage.feed(rng.randint(500, 1500))
    run = stage.open()
    monitor = stage.monitor(run)
    killed = 0
    with stage.fleet(rng.randint(1, 2)) as fleet:
        while killed < 2:
            through = min(monitor.consumed + rng.randint(50, 400), stage.fed * 3 // 4)
            stage.until(monitor, lambda: monitor.consumed >= through, f"{through} records are processed", fleet)  # noqa: B023
            fleet.add(10 + killed)
            fleet.kill(rng.choice([member.number for member in fleet.running()][:-1]))
            killed += 1
        stage.until(monitor, lambda: monitor.consumed >= stage.fed, "all is processed", fleet)
        done = stage.finish(run, fleet)
    stage.assert_exact()
    counts = done.counts()
    assert (counts.accepted, counts.late, counts.late_inserts) == (stage.fed, 0, 0)
