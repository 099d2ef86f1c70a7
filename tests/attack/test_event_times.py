"""An event time centuries ahead, the most common bad record, closes no window of a job that follows its topic."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodes.results.dead_letters import dead_letters
from nodes.results.reader import OutputReader
from nodes.streams.jobs import load_job
from tests.integration.fleet_support import Stage, run_command
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event
from tests.integration.processes import until

JOB = "tests.integration.jobs_odd:guarded?default=1"
CENTURIES_MS = 10**13


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, partitions=2)
    yield stage
    stage.log.close()


def put(stage: Stage, partition: int, *times: int) -> None:
    stage.log.append(INPUT, partition, [msgspec.json.encode(Event(ts=at, id=0, amount=0)) for at in times])


def counted(stage: Stage) -> int:
    return sum(json.loads(output.value)["count"] for output in OutputReader(stage.log, OUTPUT).read_available())


def test_a_record_from_the_future_is_set_aside_live_and_also_when_the_job_is_drained(stage: Stage) -> None:
    now_ms = time.time_ns() // 1_000_000 // 1000 * 1000
    for partition in range(2):
        put(stage, partition, now_ms, CENTURIES_MS, now_ms + 1)
    with run_command(stage, "--nodes", "1", job=JOB) as command:
        topic = "guarded.dead"
        until(
            lambda: topic in stage.log.topics() and len(list(dead_letters(stage.log, load_job(JOB)))) == 2,
            "both records from the future are dead letters",
        )
        command.signal(signal.SIGTERM)
        assert command.json()["ending"] == "stopped"
    put(stage, 0, CENTURIES_MS, now_ms + 2)
    with run_command(stage, "--nodes", "1", "--bounded", job=JOB) as command:
        result = command.json()
    assert (result["accepted"], result["late"], result["dead"]) == (5, 0, 3)
    assert "86400000 ms" in result["first_dead"]
    assert counted(stage) == 5


def test_a_bounded_replay_takes_event_times_of_any_year(stage: Stage) -> None:
    put(stage, 0, CENTURIES_MS, CENTURIES_MS + 5)
    put(stage, 1, CENTURIES_MS + 1)
    with run_command(stage, "--nodes", "1", "--bounded", job=JOB) as command:
        result = command.json()
    assert (result["accepted"], result["dead"]) == (3, 0)
    assert counted(stage) == 3
