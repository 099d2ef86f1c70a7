"""Fleets of real processes that grow, shrink and are renewed under load, while the job's own topics are trimmed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from nodes.log.contract import OffsetOutOfRange
from nodes.machine.config import JobRun
from nodes.streams.control_history import JobControlHistory, heartbeat_topic
from nodes.streams.jobs import JobTopics
from tests.integration.fleet_support import JOB, NOBODY_IS_SUSPECTED, Command, Stage
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import PLENTY_S, until
from tests.shares import share_of

# Two of them are how long a busy machine may keep a node from reading; then it may have to be started again.
MERGING = ("node.merged_checkpoint_interval_ms=4000",)


DRAWN = pytest.mark.parametrize("kind", share_of(["embedded", "kafka"], 2, __name__))
AT_NIGHT_TOO = pytest.mark.parametrize("kind", ["embedded", pytest.param("kafka", marks=pytest.mark.nightly)])
"""On the embedded log always, on a real broker at night."""


@contextmanager
def opened(folder: Path, kind: str, *definitions: str) -> Iterator[Stage]:
    """A stage on that kind of log."""
    more = (*MERGING, *definitions)
    if kind == "kafka":
        stage: Stage = KafkaStage(folder, session_bootstrap(), *more, partitions=8)
    else:
        stage = Stage(folder, *more, partitions=8)
    with stage.log:
        yield stage


@pytest.fixture
def stage(tmp_path: Path, kind: str) -> Iterator[Stage]:
    with opened(tmp_path, kind) as stage:
        yield stage


@pytest.fixture
def trusting(tmp_path: Path, kind: str) -> Iterator[Stage]:
    """Here nobody is taken for dead who is only slow."""
    with opened(tmp_path, kind, NOBODY_IS_SUSPECTED) as stage:
        yield stage


def numbers(monitor: Monitor, partitions: int = 8) -> list[int]:
    """The owners of the partitions, by number; -1 for none."""
    ownership = monitor.ownership
    return [ownership.members.get(ownership.owner(p) or "", -1) for p in range(partitions)]


def leave(fleet: Fleet, *leaving: int) -> None:
    """SIGTERM, and wait: a node that leaves in order ends with 0."""
    members = [member for member in fleet.running() if member.number in leaving]
    for member in members:
        member.stop_requested = True
        member.process.terminate()
    assert [member.process.wait(PLENTY_S) for member in members] == [0] * len(leaving)


def all_joined(fleet: Fleet, monitor: Monitor) -> bool:
    return {member.number for member in fleet.running()} <= set(monitor.ownership.members.values())


def is_trimmed(stage: Stage, run: JobRun) -> bool:
    topics = JobTopics.of(run)
    starts = [stage.log.start_offset(topics.broadcast, p) for p in range(run.partitions)]
    return min(starts) > 0 and stage.log.start_offset(topics.control, 0) > 0


@pytest.mark.long
@AT_NIGHT_TOO
def test_a_fleet_grows_from_one_to_eight_and_back_under_load(trusting: Stage) -> None:
    stage = trusting
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(1) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: set(numbers(monitor)) == {0}, "the first node owns all", fleet)
            until(lambda: is_trimmed(stage, run), "the beginning of the job's own topics is gone")
            for number in range(1, 8):
                fleet.add(number)
            stage.until(monitor, lambda: sorted(numbers(monitor)) == list(range(8)), "each owns one", fleet)
            leave(fleet, *range(1, 8))
            stage.until(monitor, lambda: set(numbers(monitor)) == {0}, "the first node owns all again", fleet)
        stage.finish(run, fleet)
    monitor.poll()
    assert monitor.steals == 0  # everything was handed over
    stage.assert_exact()  # what old and new owner both wrote until the claim was read is equal, and dropped


@pytest.mark.long
@AT_NIGHT_TOO
def test_all_nodes_are_renewed_one_after_the_other(trusting: Stage) -> None:
    stage = trusting
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(3) as fleet:
        with stage.feeding():
            until(lambda: is_trimmed(stage, run), "the beginning of the job's own topics is gone")
            for number in range(3):
                stage.until(monitor, lambda: set(numbers(monitor)) == {0, 1, 2}, "all three own some", fleet)
                leave(fleet, number)
                fleet.add(number)
        stage.until(monitor, lambda: set(numbers(monitor)) == {0, 1, 2}, "all three own some", fleet)
        stage.finish(run, fleet)
    stage.assert_exact()


@pytest.mark.long
@AT_NIGHT_TOO
def test_nodes_join_and_leave_while_the_fleet_recovers(stage: Stage) -> None:
    """One is killed, one joins and one leaves at the same time, and again before all is settled."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(3) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: -1 not in numbers(monitor), "all is owned", fleet)
            for number in range(3, 9, 2):
                stage.until(monitor, lambda: all_joined(fleet, monitor), "all have joined", fleet)
                eldest, next_one = fleet.running()[:2]
                fleet.add(number)
                fleet.kill(eldest.number)
                fleet.add(number + 1)
                leave(fleet, next_one.number)
        stage.finish(run, fleet)
    stage.assert_exact()


@AT_NIGHT_TOO
def test_all_nodes_die_before_any_progress_was_recorded(stage: Stage) -> None:
    stage.feed(400)
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2, crashpoints={0: "before-checkpoint:1", 1: "before-checkpoint:1"}) as fleet:
        until(lambda: not fleet.running(), "both are dead")
        monitor.poll()
        assert sum(monitor.taken()) == 0
        fleet.add(2)
        stage.finish(run, fleet)
    stage.assert_exact()


@pytest.mark.long
@DRAWN
def test_a_node_by_hand_joins_a_trimmed_job_and_leaves_it_at_a_signal(trusting: Stage) -> None:
    stage = trusting
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(1) as fleet:
        with stage.feeding():
            until(lambda: is_trimmed(stage, run), "the beginning of the job's own topics is gone")
            with Command("node", JOB, "--number", "7", "--json", stage=stage) as joined:
                stage.until(monitor, lambda: numbers(monitor).count(7) == 4, "it owns half", fleet)
                joined.process.terminate()
                assert joined.json()["ending"] == "stopped"
        stage.finish(run, fleet)
    assert JobControlHistory(stage.log, run.job).since > 0
    with pytest.raises(OffsetOutOfRange):
        stage.log.read(run.job.control_topic, 0, 0)
    assert stage.log.end_offset(heartbeat_topic(run.job), 0) > 0
    stage.assert_exact()
