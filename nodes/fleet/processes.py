"""A fleet: node processes on this machine, started, watched, killed and restarted by their parent process.

The fleet's parent is no coordinator: nodes neither know it nor need it. It starts processes and reads the log.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import IO

from nodes.errors import RunFailed
from nodes.fleet.prepared_child import PREPARED
from nodes.metrics.process_memory import private_bytes
from nodes.python_process import child_environment, deferred_interrupts
from nodes.runtime.child_node import JobNode, child_command
from nodes.settings.settings import Settings

STOP_TIMEOUT_S = 30.0
FAILED_STOP_TIMEOUT_S = 5.0
LINES_S = 5.0
"""As long is waited for the last lines of a node that has ended: a process that it left behind may never end them."""


@dataclass(slots=True)
class FleetProcess:
    """One node process; ``killed``: by the fleet itself; ``stop_requested``: it was requested to leave."""

    number: int
    process: subprocess.Popen[bytes]
    killed: bool = False
    stop_requested: bool = False
    peak_bytes: int = 0
    bytes_now: int = 0
    reader: threading.Thread | None = None
    """Reads the lines that the process prints, where the fleet wants them."""

    @property
    def ending(self) -> str:
        """How the process ended, in words."""
        code = self.process.returncode
        if code is None:
            return "running"
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"


@dataclass(slots=True)
class Fleet:
    """``start`` nodes of ``job`` (``MODULE:JOB``); use it as a context manager, so that none is left behind.

    ``environment`` is added to the children's; ``crashpoints`` (number -> ``name:n``) is for tests. With ``lines`` what
    the nodes print is put there as (number, line), for a caller that shows something else on the terminal.

    Nodes are process groups of their own: a Ctrl-C at the terminal reaches the parent alone, which stops them; where
    the parent just vanishes, they leave by themselves.
    ``awaited``: nodes that will be started later, so that a fleet without a running node has not failed yet.
    ``until``: by partition, the end of the input that the fleet is about to declare; () if it declares none.
    """

    job: str
    settings: Settings
    nodes: int
    accept_code: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    crashpoints: dict[int, str] = field(default_factory=dict)
    members: list[FleetProcess] = field(default_factory=list)
    peak_bytes: int = 0
    awaited: int = 0
    until: Sequence[int] = ()
    lines: SimpleQueue[tuple[int, str]] | None = None

    def start(self) -> None:
        """Start all nodes; they wait for each other before they divide the work."""
        for number in range(self.nodes):
            self.add(number, expected=self.nodes)

    def add(self, number: int, expected: int = 1) -> FleetProcess:
        """Start one node."""
        child = JobNode(
            job=self.job,
            number=number,
            expected=expected,
            until=tuple(self.until),
            accept_code=self.accept_code,
            parent=os.getpid(),
        )
        environment = child_environment(self.settings.environment(), self.environment)
        if number in self.crashpoints:
            environment["CRASHPOINT"] = self.crashpoints.pop(number)
        captured = self.lines is not None
        command = child_command(child)
        with deferred_interrupts():
            prepared = PREPARED.begin(command[-1], environment) if captured else None
            process = prepared or subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if captured else sys.stderr.fileno(),
                stderr=subprocess.STDOUT if captured else None,
                process_group=0,
            )
            member = FleetProcess(number, process)
            self.members.append(member)
        if self.lines is not None:
            assert process.stdout is not None
            arguments = (process.stdout, number, self.lines)
            member.reader = threading.Thread(target=_pump, args=arguments, name=f"holon-lines-{number}", daemon=True)
            member.reader.start()
        return member

    def kill(self, number: int) -> bool:
        """``kill -9``, without a notice to the others. False if that node does not run."""
        for member in self.running():
            if member.number == number:
                member.killed = True
                member.process.send_signal(signal.SIGKILL)
                member.process.wait()
                return True
        return False

    def await_lines(self) -> None:
        """Return when the last words of all nodes that have ended are in ``lines``."""
        for member in self.members:
            if member.reader is not None and member.process.poll() is not None:
                member.reader.join(LINES_S)

    def kill_all(self) -> None:
        """``kill -9`` of every node."""
        for member in self.running():
            member.killed = True
            member.process.kill()
        for member in self.members:
            member.process.wait()

    def running(self) -> list[FleetProcess]:
        """Nodes whose process runs."""
        return [member for member in self.members if member.process.poll() is None]

    def check(self) -> None:
        """Raises ``RunFailed`` if no node is left although some ended badly; one of many may die."""
        if not self.running() and not self.awaited:
            ends = [m for m in self.members if not m.killed]
            if any(m.process.returncode != 0 for m in ends) or not ends:
                how = ", ".join(f"node {m.number}: {m.ending}" for m in ends)
                raise RunFailed(f"all nodes of the job have ended ({how or 'all killed'}); see the log above")

    def measure(self) -> None:
        """Note the nodes' own memory; call it now and then."""
        for member in self.running():
            try:
                used = private_bytes(member.process.pid)
            except OSError:
                continue
            member.bytes_now = used
            member.peak_bytes = max(member.peak_bytes, used)
            self.peak_bytes = max(self.peak_bytes, used)

    def request_stop(self) -> None:
        """SIGTERM, once: all nodes drain, save checkpoints and leave. (A second one would end them at once.)"""
        for member in self.running():
            if not member.stop_requested:
                member.stop_requested = True
                member.process.terminate()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Request that all nodes drain and leave; those that do not in time are killed."""
        self.request_stop()
        deadline = time.monotonic() + timeout_s
        for member in self.members:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.killed = True
                member.process.kill()
                member.process.wait()

    def __enter__(self) -> Fleet:
        try:
            self.start()
        except BaseException:
            self.stop(timeout_s=FAILED_STOP_TIMEOUT_S)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop(timeout_s=STOP_TIMEOUT_S if exc[0] is None else FAILED_STOP_TIMEOUT_S)


def wait_for(fleet: Fleet, done: Callable[[], bool], tick: Callable[[], None], *, interval_s: float = 0.02) -> None:
    """Wait until ``done``, calling ``tick`` at every poll. Raises ``RunFailed`` if the fleet has died instead."""
    measured = 0.0
    while not done():
        tick()
        now = time.monotonic()
        if now - measured > 0.5:
            measured = now
            fleet.measure()
        if not done():
            fleet.check()
            time.sleep(interval_s)


def _pump(stream: IO[bytes], number: int, lines: SimpleQueue[tuple[int, str]]) -> None:
    with stream:
        for line in stream:
            lines.put((number, line.decode(errors="replace").rstrip("\n")))


__all__: Sequence[str] = ["STOP_TIMEOUT_S", "Fleet", "FleetProcess", "wait_for"]
