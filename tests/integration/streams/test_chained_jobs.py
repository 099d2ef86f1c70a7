"""Jobs in a row on the command line: each result of the one before counts once, on both logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.results.reader import OutputReader
from nodes.streams.jobs import load_job, open_job
from tests.integration.fleet_support import Stage, run_command
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import until
from tests.shares import share_of

pytestmark = pytest.mark.timeout(900)  # many commands, each of which starts processes

PARTITIONS = 2
STAGES: dict[str, Callable[[Path], Stage]] = {
    "embedded": lambda folder: Stage(folder, partitions=PARTITIONS),
    "kafka": lambda folder: KafkaStage(folder, session_bootstrap(), partitions=PARTITIONS),
}
UP, MID, DOWN = (f"examples.chained:{name}" for name in ("up", "mid", "down"))


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path)
    made.log.create_topic("orders", PARTITIONS)
    yield made
    made.log.close()


def order(stage: Stage, first: int, count: int) -> None:
    """Append orders: 500 ms of event time between two."""
    for partition in range(PARTITIONS):
        numbers = range(first + partition, first + count, PARTITIONS)
        rows = [{"ts": 500 * n, "customer": f"c{n % 7}", "quantity": 1 + n % 3, "cents": 100} for n in numbers]
        stage.log.append("orders", partition, [msgspec.json.encode(row) for row in rows])


def ran(stage: Stage, job: str, *options: str, exit_code: int = 0) -> dict[str, Any]:
    with run_command(stage, "--bounded", *options, job=job) as command:
        return command.json(exit_code)


def minutes(stage: Stage) -> dict[int, int]:
    """Orders by the start of their minute, as the last job has it."""
    found = [msgspec.json.decode(o.value) for o in OutputReader(stage.log, "chained-by-minute").read_available()]
    assert len({row["start_ms"] for row in found}) == len(found)
    return {row["start_ms"]: row["orders"] for row in found}


@pytest.mark.long
def test_three_jobs_in_a_row_with_resets_in_between_give_each_result_once(stage: Stage) -> None:
    order(stage, 0, 250)
    assert ran(stage, UP)["outputs"] == 250
    assert ran(stage, UP, "--reset")["outputs"] == 250
    mid = ran(stage, MID)
    assert (mid["accepted"], mid["duplicates"], mid["taken"], mid["conserved"]) == (250, 250, 500, True)
    again = ran(stage, MID, "--reset")
    assert (again["accepted"], again["duplicates"]) == (250, 250)
    down = ran(stage, DOWN)
    assert down["accepted"] == down["duplicates"] == again["outputs"] and down["conserved"]
    assert minutes(stage) == {0: 120, 60_000: 120, 120_000: 10}
    assert ran(stage, DOWN, "--reset")["outputs"] == 3
    assert minutes(stage) == {0: 120, 60_000: 120, 120_000: 10}


@pytest.mark.long
def test_a_job_whose_upstream_is_reset_under_it_says_so_instead_of_counting_twice(stage: Stage) -> None:
    order(stage, 0, 100)
    ran(stage, UP)
    run = stage.open(MID)
    with stage.fleet(1, MID) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: monitor.consumed == 100, "it has read all", fleet)
        ran(stage, UP, "--reset")

        def failed() -> bool:
            monitor.poll()
            return monitor.failure is not None

        until(failed, "it stops")
    assert "'chained-up'" in (monitor.failure or "") and "--reset" in (monitor.failure or "")
    assert ran(stage, MID, "--reset")["accepted"] == 100


@pytest.mark.long
def test_a_running_job_says_that_one_before_it_has_begun_again_though_that_has_written_nothing(stage: Stage) -> None:
    order(stage, 0, 100)
    assert ran(stage, UP)["outputs"] == 100
    with run_command(stage, job=MID) as command:
        monitor = stage.monitor(open_job(stage.log, load_job(MID)))
        stage.until(monitor, lambda: monitor.consumed > 0, "it has counted results")
        open_job(stage.log, load_job(UP), reset=True)
        command.says("has begun again (incarnation 1)")
