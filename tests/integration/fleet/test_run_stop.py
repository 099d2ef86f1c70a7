"""`holon run` is stopped and goes on: signals, exit codes, nodes that join and leave, a parent that vanishes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nodes.fleet.monitor import Monitor
from nodes.streams.jobs import declare_end, request_stop
from tests.integration.fleet_support import (
    JOB,
    NOBODY_IS_SUSPECTED,
    SLOWLY_SUSPECTED,
    Command,
    Stage,
    owners,
    run_command,
)
from tests.integration.jobs_waiting import GATE, at_gate
from tests.integration.processes import PLENTY_S, until

POISONED = "tests.integration.jobs_odd:poisoned"
PATIENT = ("-D", f"node.function_timeout_ms={1000 * int(PLENTY_S)}")
"""A function that waits for the test does not hang."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.log.close()


@pytest.fixture
def trusting(tmp_path: Path) -> Iterator[Stage]:
    """Here nobody is taken for dead who is only slow."""
    stage = Stage(tmp_path, NOBODY_IS_SUSPECTED)
    yield stage
    stage.log.close()


def consumes(stage: Stage, monitor: Monitor, count: int) -> None:
    stage.until(monitor, lambda: sum(monitor.taken()) >= count, f"{count} records are checkpointed")


@pytest.mark.long
def test_a_run_that_is_terminated_in_the_middle_goes_on_from_there(trusting: Stage) -> None:
    stage = trusting
    monitor = stage.monitor(stage.open())
    with run_command(stage, "--nodes", "2") as command, stage.feeding():
        consumes(stage, monitor, 1000)
        command.signal(signal.SIGTERM)
        first = command.json()
    assert first["ending"] == "stopped" and first["conserved"] and first["taken"] >= 1000
    assert first["outputs"] >= first["taken"] // 5

    with run_command(stage, "--nodes", "1", "--bounded") as command:
        second = command.json()
    assert second["ending"] == "done" and second["taken"] == stage.fed
    assert second["restarts"] == 0
    # Work that is done again is suppressed or dropped as a repeat; after a clean stop there is none.
    assert (second["suppressed"], second["steals"]) == (0, 0)
    assert second["repeats_dropped"] == first["repeats_dropped"]
    stage.assert_exact()

    with run_command(stage, "--bounded") as command:
        third = command.json()
    assert third["already_done"] and third["outputs"] == second["outputs"]
    stage.feed(10)
    with run_command(stage, "--bounded", "--reset") as command:
        fourth = command.json()
    assert (fourth["incarnation"], fourth["taken"]) == (1, stage.fed)
    stage.assert_exact()


@pytest.mark.long
def test_ctrl_c_drains_and_a_second_one_ends_at_once(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stage.open()
    stage.feed(400)
    monitor = stage.monitor(run)
    with run_command(stage, "--nodes", "2") as command:
        consumes(stage, monitor, 400)
        command.signal(signal.SIGINT)
        result = command.json(exit_code=130)
    assert result["ending"] == "interrupted" and result["conserved"] and result["taken"] == 400
    monitor.poll()
    assert not monitor.ownership.members  # all of them said Goodbye

    gate = tmp_path / "gate"  # it is never opened: what is in hand goes on for ever
    monkeypatch.setenv(GATE, str(gate))
    endless = json.dumps({"ts": 0, "id": 0, "amount": 0, "poison": "raise"}).encode()
    for partition in range(stage.partitions):
        stage.log.append("in", partition, [endless])
    with run_command(stage, "--nodes", "2", *PATIENT, job=POISONED) as command:
        nodes = nodes_at_work(command, 2)
        until(lambda: bool(at_gate(gate)), "a node has something in hand")
        command.signal(signal.SIGINT)
        command.says("stopping: the nodes finish their work")
        command.signal(signal.SIGINT)
        code, out, err = command.finish()
    assert code == 130 and "stopped at once" in err and json.loads(out)["error"]["exit_code"] == 130
    assert not any(node.is_running() for node in nodes)


def nodes_at_work(command: Command, count: int) -> list[psutil.Process]:
    """The node processes of a run."""
    run, found = psutil.Process(command.process.pid), list[psutil.Process]()

    def started() -> bool:
        found[:] = run.children()
        return len(found) == count

    until(started, f"{count} nodes are started")
    return found


def test_nodes_leave_when_the_run_that_they_belong_to_is_killed(stage: Stage) -> None:
    monitor = stage.monitor(stage.open())
    with run_command(stage, "--nodes", "2") as command:
        nodes = nodes_at_work(command, 2)
        stage.until(monitor, lambda: None not in owners(monitor), "all is owned")
        command.signal(signal.SIGKILL)
        until(lambda: not any(node.is_running() for node in nodes), "the nodes have left")
    monitor.poll()
    assert not monitor.ownership.members  # all of them said Goodbye


@pytest.mark.long
def test_a_node_joins_from_another_terminal_and_goes_on_alone(trusting: Stage) -> None:
    stage = trusting
    run = stage.open()
    monitor = stage.monitor(run)
    with run_command(stage, "--nodes", "1") as command, stage.feeding():
        stage.until(monitor, lambda: set(owners(monitor)) == {0}, "the first node owns all")
        with Command("node", JOB, "--number", "7", "--json", stage=stage) as joined:
            stage.until(monitor, lambda: sorted(map(str, owners(monitor))) == ["0", "0", "7", "7"], "they share")
            command.signal(signal.SIGTERM)
            assert command.json()["ending"] == "stopped"
            stage.until(monitor, lambda: set(owners(monitor)) == {7}, "the node that joined owns all")
            consumes(stage, monitor, sum(monitor.taken()) + 200)
            stage.stop_feeding()
            declare_end(stage.log, run)
            result = joined.json()
    assert result["ending"] == "done" and result["number"] == 7
    stage.assert_exact()


@pytest.mark.long
def test_nodes_join_and_leave_while_the_input_grows(trusting: Stage) -> None:
    """One joins, the eldest leaves, again and again; results go on all the time."""
    stage = trusting
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both are at work, so none only starts", fleet)
            for number in range(2, 6):
                stage.until(monitor, lambda: None not in owners(monitor), "all is owned", fleet)
                fleet.add(number)
                stage.until(monitor, lambda n=number: n in owners(monitor), f"node {number} has taken over", fleet)
                eldest = fleet.running()[0]
                eldest.process.terminate()
                assert eldest.process.wait(PLENTY_S) == 0
                consumes(stage, monitor, sum(monitor.taken()) + 200)
        stage.finish(run, fleet)
    monitor.poll()
    assert monitor.steals == 0  # everything was handed over, nothing had to be taken
    stage.assert_exact()  # who hands over works on until the next has claimed: what both wrote is equal, and dropped


def test_a_stop_from_anywhere_ends_the_run(stage: Stage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    with run_command(stage, "--nodes", "2") as command:
        stage.until(monitor, lambda: None not in owners(monitor), "all is owned")
        request_stop(stage.log, run)
        result = command.json()
    assert result["ending"] == "stopped" and result["restarts"] == 0


@pytest.mark.long
def test_a_node_that_dies_is_reported_and_started_again(stage: Stage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    with run_command(stage, "--nodes", "2", "-D", SLOWLY_SUSPECTED) as command:
        nodes = nodes_at_work(command, 2)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions")
            lives = set(monitor.ownership.members)
            nodes[1].send_signal(signal.SIGKILL)
            newborn = lambda: set(monitor.ownership.members) - lives  # noqa: E731
            stage.until(monitor, lambda: bool(newborn()), "its next life has begun")
            at_work = lambda: newborn() & set(map(monitor.ownership.owner, range(4)))  # noqa: E731
            stage.until(monitor, lambda: bool(at_work()) and monitor.steals > 0, "it has work")
            command.signal(signal.SIGTERM)
            code, out, err = command.finish()
    result = json.loads(out)
    assert code == 0 and result["restarts"] == 1 and result["steals"] >= 1
    assert "has ended: killed by SIGKILL; starting it again in 1 s" in err
    with run_command(stage, "--bounded") as command:
        assert command.json()["conserved"]
    stage.assert_exact()


def test_a_run_that_has_read_its_input_says_how_many_windows_are_left(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a node is inside of one long step, which answers them all."""
    gate = tmp_path / "gate"
    monkeypatch.setenv(GATE, str(gate))
    stage.feed(200)
    windows = {event.ts for events in stage.events.values() for event in events}
    with run_command(stage, "--bounded", *PATIENT, job="tests.integration.jobs_waiting:job") as command:
        command.says(f"the input has ended, {len(windows) * stage.partitions:,} windows are still to be answered")
        gate.touch()
        result = command.json()
    assert (result["ending"], result["outputs"]) == ("done", len(windows) * stage.partitions)
