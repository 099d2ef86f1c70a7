"""A job with sharded state on node processes of which one is killed, on both logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fleet_support import Stage
from tests.integration.jobs_mixed import OUTPUT
from tests.integration.jobs_sharded import expected
from tests.integration.kafka_stage import STAGES
from tests.shares import share_of

JOB = "tests.integration.jobs_sharded:job"


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path)
    yield made
    made.log.close()


@pytest.mark.long
def test_shards_are_exact_though_a_node_is_killed_and_its_keys_go_to_another(stage: Stage) -> None:
    stage.feed(4_000)
    run = stage.open(JOB)
    with stage.fleet(2, JOB, crashpoints={0: "before-checkpoint:2"}) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: fleet.members[0].process.poll() is not None, "node 0 dies", fleet)
        stage.feed(2_000)
        stage.finish(run, fleet)
    assert stage.results(OUTPUT) == expected(stage.events)
    shards = run.job.shards_topic(0)
    assert sum(stage.log.end_offset(shards, p) for p in range(run.partitions)) > 0
