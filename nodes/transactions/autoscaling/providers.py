"""Providers of the nodes of an autoscaled job: processes on this machine, or the replicas of a deployment."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Protocol

from nodes.errors import MissingDependency, RunFailed
from nodes.fleet.processes import FleetProcess
from nodes.fleet.supervisor import Supervisor
from nodes.transactions.fleet import TransactionFleet

LEAVE_S = 30.0
"""Nodes that were requested to leave and have not are killed after that."""
KUBECTL_S = 60.0


class NodeProvider(Protocol):
    """Called by one thread. ``scale``: make ``nodes`` of the ``alive`` ones that the job has."""

    def scale(self, nodes: int, alive: int) -> None:
        """Returns at once; raises ``RunFailed`` where it cannot."""
        ...

    def check(self) -> None:
        """Now and then."""
        ...

    def close(self) -> None:
        """The autoscaler ends."""
        ...


class ProcessNodes:
    """Child processes of this one; one that crashes is started again. They leave with it.

    ``on_wrong_pages``: as ``Supervisor`` has it.
    """

    def __init__(
        self,
        fleet: TransactionFleet,
        report: Callable[[str], None],
        on_wrong_pages: Callable[[], None] = lambda: None,
    ) -> None:
        self._fleet = fleet
        self._report = report
        self._supervisor = Supervisor(fleet, report, on_wrong_pages=on_wrong_pages, lasting=True)
        self._next = 0

    @property
    def running(self) -> int:
        """How many of them were not requested to leave."""
        return len(self._staying())

    def scale(self, nodes: int, alive: int) -> None:
        """So many more than are alive are started; of too many the newest leave, those of other hands excepted.

        Processes that have not joined yet count as alive.
        """
        for _ in range(nodes - max(alive, self.running)):
            self._fleet.add(self._next)
            self._next += 1
        staying = self._staying()
        too_many = max(0, alive - nodes)
        for member in staying[len(staying) - min(too_many, len(staying)) :]:
            member.killed = member.stop_requested = True  # so that the supervisor does not start it again
            member.process.send_signal(signal.SIGTERM)
        if too_many > len(staying):
            raise RunFailed(f"{too_many} nodes are too many, and {len(staying)} are processes of this command")

    def check(self) -> None:
        """Start those again that have crashed."""
        self._supervisor.check(time.monotonic(), lambda: False)

    def close(self) -> None:
        """All leave in order, or are killed."""
        self._fleet.request_stop()
        deadline = time.monotonic() + LEAVE_S
        for member in self._fleet.members:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._report(f"node {member.number} has not left within {LEAVE_S:g} s: killed")
                member.process.kill()
                member.process.wait()

    def _staying(self) -> list[FleetProcess]:
        return [each for each in self._fleet.members if each.process.poll() is None and not each.stop_requested]


class DeploymentNodes:
    """The replicas of a Kubernetes deployment, through ``kubectl``: raises ``MissingDependency`` without it."""

    def __init__(self, deployment: str, namespace: str | None = None, kubectl: str = "kubectl") -> None:
        if shutil.which(kubectl) is None:
            raise MissingDependency(f"{kubectl} is not there: install it, or use --program")
        self._deployment = deployment
        self._command = [kubectl, *([] if namespace is None else ["--namespace", namespace])]

    def scale(self, nodes: int, alive: int) -> None:
        """Sets the number of replicas; nodes of other hands, which are alive beside those that are ready, count.

        A replica that crashes, or does not start, is no reason for one more: Kubernetes starts it again.
        """
        name = f"deployment/{self._deployment}"
        ready = self._run("get", name, "--output=jsonpath={.status.readyReplicas}").strip() or "0"
        if not ready.isdecimal():
            raise RunFailed(f"kubectl get {name} has given {ready!r} as the number of ready replicas")
        others = max(0, alive - int(ready))
        self._run("scale", name, f"--replicas={max(0, nodes - others)}")
        if others > nodes:
            raise RunFailed(f"{alive - nodes} nodes are too many, and {others} are no replicas of {name}")

    def _run(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=KUBECTL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunFailed(f"{' '.join(command)}: {error}") from error
        if done.returncode:
            raise RunFailed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def check(self) -> None:
        """The deployment starts its replicas again."""

    def close(self) -> None:
        """They stay."""
