"""`holon run --bounded`: the end of the input is written when the run has begun; `--continue` goes on behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.results.reader import OutputReader
from tests.integration.fleet_support import Stage, run_command
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.shares import share_of

pytestmark = pytest.mark.timeout(900)  # many commands, each of which starts processes

PARTITIONS = 2
STAGES: dict[str, Callable[[Path], Stage]] = {
    "embedded": lambda folder: Stage(folder, partitions=PARTITIONS),
    "kafka": lambda folder: KafkaStage(folder, session_bootstrap(), partitions=PARTITIONS),
}
COUNTS = "tests.integration.jobs_continued:job"
INPUT, OUTPUT = "later", "later-counts"


@contextmanager
def made(kind: str, folder: Path) -> Iterator[Stage]:
    stage = STAGES[kind](folder)
    stage.log.create_topic(INPUT, PARTITIONS)
    yield stage
    stage.log.close()


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with made(request.param, tmp_path) as stage:
        yield stage


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[list[Stage]]:
    """One on each log."""
    with ExitStack() as stack:
        yield [stack.enter_context(made(kind, tmp_path / kind)) for kind in STAGES]


def put(stage: Stage, *seconds: int, partition: int | None = None) -> None:
    """A record at each second of event time, to one partition or to all."""
    for to in range(PARTITIONS) if partition is None else [partition]:
        stage.log.append(INPUT, to, [msgspec.json.encode({"ts": 1000 * second}) for second in seconds])


def ran(stage: Stage, *options: str, exit_code: int = 0) -> dict[str, Any]:
    with run_command(stage, *options, job=COUNTS) as command:
        return command.json(exit_code)


def counts(stage: Stage) -> list[tuple[int, int, int]]:
    """Start of a window in s, records in it, and records of all windows so far."""
    found = [msgspec.json.decode(o.value) for o in OutputReader(stage.log, OUTPUT).read_available()]
    return sorted((row["start_ms"] // 1000, row["count"], row["total"]) for row in found)


@pytest.mark.long
def test_records_that_came_after_the_end_are_told_and_gone_on_with(stage: Stage) -> None:
    put(stage, 1, 2, 14)
    assert ran(stage, "--bounded")["accepted"] == 6
    assert ran(stage, "--bounded")["already_done"]
    put(stage, 15, 25)
    put(stage, 26, partition=1)
    code, out, err = _finished(stage, "--bounded")
    assert code == 1 and msgspec.json.decode(out)["unread"] == {"0": 2, "1": 3}
    assert "5 records behind it are unread (2 in partition 0, 3 in partition 1). --continue goes on" in err
    assert ran(stage, exit_code=1)["unread"] == {"0": 2, "1": 3}
    assert counts(stage) == [(0, 4, 4), (10, 2, 6)]

    again = ran(stage, "--bounded", "--continue")
    # Windows that were answered at the end take nothing any more: the records at 15 s are late.
    assert (again["accepted"], again["late"], again["taken"], again["conserved"]) == (9, 2, 11, True)
    assert (again["incarnation"], again["unread"], again["repeats_dropped"]) == (1, {}, 0)
    assert counts(stage) == [(0, 4, 4), (10, 2, 6), (20, 3, 9)]
    put(stage, 31)
    third = ran(stage, "--bounded", "--continue", "--nodes", "2")
    assert (third["incarnation"], third["accepted"], third["outputs"]) == (2, 11, 4)
    assert counts(stage)[-1] == (30, 2, 11)
    assert ran(stage, "--bounded", "--continue")["already_done"]


@pytest.mark.long
def test_records_that_come_while_a_bounded_run_starts_are_behind_its_end(stage: Stage) -> None:
    """Nodes read them before the end was declared, so that what a run gave depended on which came first."""
    put(stage, 1, 2)
    with run_command(stage, "--bounded", job=COUNTS) as command:
        second = 3
        while command.process.poll() is None:
            put(stage, second)
            second += 1
        code, out, err = command.finish()
    result = msgspec.json.decode(out)
    monitor = stage.monitor(stage.open(COUNTS))
    ends = [monitor.ownership.end_offset(partition) or 0 for partition in range(PARTITIONS)]
    assert code == 0 and (result["accepted"], result["late"]) == (sum(ends), 0), err
    assert sum(count for _, count, _ in counts(stage)) == sum(ends)
    assert ran(stage, "--bounded", exit_code=1)["unread"] == {str(p): second - 1 - ends[p] for p in range(PARTITIONS)}


@pytest.mark.long
def test_runs_whose_nodes_cannot_start_end_no_input(stages: list[Stage]) -> None:
    """Both at a time: each waits for half a minute altogether before it gives its nodes up."""
    with ExitStack() as commands:
        runs = []
        for stage in stages:
            put(stage, 1)
            run = stage.open(COUNTS)
            stage.path.mkdir(exist_ok=True)
            nowhere = stage.path / "file"
            nowhere.write_text("no folder")
            usable, stage.definitions = stage.definitions, (*stage.definitions, f"checkpoints.url={nowhere / 'in-it'}")
            runs.append((stage, run, commands.enter_context(run_command(stage, "--bounded", job=COUNTS))))
            stage.definitions = usable
        for stage, run, command in runs:
            code, _, err = command.finish()
            assert code not in (0, 2), err
            monitor = stage.monitor(run)
            assert [monitor.ownership.end_offset(partition) for partition in range(PARTITIONS)] == [None] * PARTITIONS
    for stage in stages:
        put(stage, 2)
        assert ran(stage, "--bounded")["accepted"] == 4


@pytest.mark.long
def test_a_continued_job_may_go_on_without_an_end(stage: Stage) -> None:
    put(stage, 1)
    ran(stage, "--bounded")
    with run_command(stage, "--continue", job=COUNTS) as command:
        put(stage, 12, 22)
        stage.until(
            monitor := stage.monitor(_opened(stage)), lambda: monitor.consumed >= 6, "it has read what came later"
        )
        command.signal(15)
        assert command.json()["ending"] == "stopped"
    assert ran(stage, "--bounded")["ending"] == "done"
    assert counts(stage) == [(0, 2, 2), (10, 2, 4), (20, 2, 6)]


def _finished(stage: Stage, *options: str) -> tuple[int, str, str]:
    with run_command(stage, *options, job=COUNTS) as command:
        return command.finish()


def _opened(stage: Stage) -> Any:
    from nodes.streams.jobs import read_ownership
    from tests.integration.jobs_continued import job
    from tests.integration.processes import until

    until(lambda: (found := read_ownership(stage.log, job)) is not None and found.incarnation == 1, "it is continued")
    return stage.open(COUNTS)
