"""Node processes on a real broker that are stopped past their suspicion, killed at named points, or killed together."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from tests.integration.fleet.test_processes_crash import CRASHPOINTS, died
from tests.integration.fleet_support import owners
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap())
    yield stage
    stage.log.close()


def fell_behind(fleet: Fleet) -> bool:
    """Whether the zombie has ended because the control topic was trimmed behind it: it is to be started again."""
    member = next(member for member in reversed(fleet.members) if member.number == 0)
    code = member.process.poll()
    assert code in (None, 4), code
    return code == 4


def stop_and_continue(stage: KafkaStage, pauses_s: list[float]) -> None:
    """Of two nodes, one is stopped, replaced, and goes on after the pause with what it believes.

    A node that was taken for dead gets partitions again once it has kept pace for a while, or when there is no other.
    After each pause the other one leaves. Before the next a new one joins, and the zombie keeps what it has.
    """
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        zombie, other = fleet.members
        with stage.feeding():
            for other_number, pause_s in enumerate(pauses_s, start=1):
                if other.number != other_number:
                    other = fleet.add(other_number)
                    joins = lambda n=other_number: n in monitor.ownership.members.values()  # noqa: E731
                    stage.until(monitor, joins, "another one joins", fleet)
                else:
                    stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
                works_on(stage, monitor, fleet)
                zombie.process.send_signal(signal.SIGSTOP)
                stopped_s = time.monotonic()
                stage.until(monitor, lambda at={other_number}: set(owners(monitor)) == at, "the other owns all", fleet)
                works_on(stage, monitor, fleet)
                until(lambda at=stopped_s, s=pause_s: time.monotonic() > at + s, "the pause is over")
                zombie.process.send_signal(signal.SIGCONT)
                other.process.terminate()
                stage.until(monitor, lambda: set(owners(monitor)) == {0} or fell_behind(fleet), "it is back", fleet)
                if fell_behind(fleet):
                    zombie = fleet.add(0)
                    stage.until(monitor, lambda: set(owners(monitor)) == {0}, "its successor owns all", fleet)
                works_on(stage, monitor, fleet)
        stage.finish(run, fleet)
    stage.assert_exact()


def works_on(stage: KafkaStage, monitor: Monitor, fleet: Fleet) -> None:
    before = monitor.consumed
    stage.until(monitor, lambda: monitor.consumed > before + 200, "records are read", fleet)


@pytest.mark.long
def test_a_zombie_says_nothing_new(stage: KafkaStage) -> None:
    """Its later writes have the same identities and the same bytes; the reader gives each once."""
    stop_and_continue(stage, [2.0, 2.0])


@pytest.mark.nightly
def test_a_zombie_of_long_ago_says_nothing_new(stage: KafkaStage) -> None:
    """Stopped for ten seconds past the suspicion, then for longer than the broker is waited for."""
    stop_and_continue(stage, [11.0, 35.0])


@pytest.mark.long
def test_all_nodes_may_die_at_once(stage: KafkaStage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    for last in (False, True):
        with stage.fleet(2) as fleet, stage.feeding():
            before = monitor.consumed
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            stage.until(monitor, lambda at=before: monitor.consumed > at + 500, "both work", fleet)
            if last:
                stage.stop_feeding()
                stage.finish(run, fleet)
            else:
                fleet.kill_all()
    stage.assert_exact()


def die_at(stage: KafkaStage, points: tuple[str, ...]) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(1) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: None not in owners(monitor), "the first node owns all", fleet)
            for number, point in enumerate(points, start=1):
                fleet.crashpoints[number] = point
                fleet.add(number)
                until(lambda number=number: number in died(fleet), f"node {number} dies at {point}")
        stage.finish(run, fleet)
    stage.assert_exact()


@pytest.mark.long
def test_a_node_may_die_between_what_it_sends_and_its_acknowledgement(stage: KafkaStage) -> None:
    """The points that differ from the embedded log, where an append has returned once it is on the log."""
    die_at(stage, ("after-output:4", "after-delta:5", "after-checkpoint:2"))


@pytest.mark.nightly
def test_a_node_may_die_at_every_named_point(stage: KafkaStage) -> None:
    die_at(stage, CRASHPOINTS)
