"""Node processes of an autoscaler, with processes that are none."""

from __future__ import annotations

import signal
import subprocess
from typing import Any, cast

import pytest

from nodes.errors import MissingDependency, RunFailed
from nodes.fleet.processes import FleetProcess
from nodes.transactions.autoscaling.providers import DeploymentNodes, ProcessNodes
from nodes.transactions.fleet import TransactionFleet


class Process:
    """Ends when it is told."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.signals: list[int] = []

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        self.returncode = 0

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            raise subprocess.TimeoutExpired("node", timeout or 0)
        return self.returncode

    def kill(self) -> None:
        self.returncode = -9


class FakeFleet:
    def __init__(self) -> None:
        self.members: list[FleetProcess] = []

    def add(self, number: int) -> FleetProcess:
        self.members.append(FleetProcess(number, cast("Any", Process())))
        return self.members[-1]

    def request_stop(self) -> None:
        for member in self.members:
            member.stop_requested = True


def provider() -> tuple[ProcessNodes, FakeFleet, list[str]]:
    fleet, reports = FakeFleet(), list[str]()
    return ProcessNodes(cast("TransactionFleet", fleet), reports.append), fleet, reports


def test_nodes_are_added_and_the_newest_leave_in_order_for_good() -> None:
    made, fleet, reports = provider()
    made.scale(2, 0)
    made.scale(4, 2)
    assert [member.number for member in fleet.members] == [0, 1, 2, 3] and made.running == 4
    made.check()
    made.scale(2, 4)
    signals = [cast("Process", each.process).signals for each in fleet.members]
    assert signals == [[], [], [signal.SIGTERM], [signal.SIGTERM]]
    made.check()
    assert made.running == 2 and len(fleet.members) == 4 and not reports, "what left is not started again"
    made.scale(3, 2)
    assert fleet.members[-1].number == 4


def test_a_process_that_has_not_joined_yet_is_not_started_again() -> None:
    made, fleet, _ = provider()
    made.scale(1, 0)
    made.scale(2, 1)
    made.scale(2, 1)
    assert len(fleet.members) == 2
    made.scale(3, 1)
    assert len(fleet.members) == 3


def test_nodes_of_other_hands_stay() -> None:
    made, fleet, _ = provider()
    made.scale(2, 1)
    with pytest.raises(RunFailed, match="2 nodes are too many, and 1 are processes of this command"):
        made.scale(0, 2)
    assert made.running == 0 and len(fleet.members) == 1


def test_a_process_that_does_not_leave_is_killed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.transactions.autoscaling.providers.LEAVE_S", 0)
    made, fleet, reports = provider()
    made.scale(1, 0)
    made.close()
    assert fleet.members[0].process.returncode == -9 and reports == ["node 0 has not left within 0 s: killed"]


@pytest.mark.parametrize(
    ("ready", "nodes", "alive", "replicas"),
    [
        ("2", 4, 2, 4),
        ("2", 4, 3, 3),  # one is of other hands
        ("1", 2, 1, 2),  # one has crashed, and is started again
        ("", 2, 0, 2),
        ("3", 2, 2, 2),  # one has not joined yet
        ("2", 1, 4, 0),
    ],
)
def test_replicas_of_a_deployment_are_the_nodes_that_no_other_hands_provide(
    monkeypatch: pytest.MonkeyPatch, ready: str, nodes: int, alive: int, replicas: int
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[1:])
        return subprocess.CompletedProcess(command, 0, ready if "get" in command else "", "")

    monkeypatch.setattr("nodes.transactions.autoscaling.providers.subprocess.run", run)
    made = DeploymentNodes("bank", "prod", kubectl="sh")
    if alive - int(ready or 0) > nodes:
        with pytest.raises(RunFailed, match="3 nodes are too many, and 2 are no replicas of deployment/bank"):
            made.scale(nodes, alive)
    else:
        made.scale(nodes, alive)
    assert asked == [
        ["--namespace", "prod", "get", "deployment/bank", "--output=jsonpath={.status.readyReplicas}"],
        ["--namespace", "prod", "scale", "deployment/bank", f"--replicas={replicas}"],
    ]


def test_a_deployment_needs_kubectl() -> None:
    with pytest.raises(MissingDependency, match="no-such-kubectl is not there"):
        DeploymentNodes("bank", kubectl="no-such-kubectl")
