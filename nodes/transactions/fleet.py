"""The node processes of a transactional job, started and started again by the command that stays with them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from nodes.fleet.processes import FleetProcess
from nodes.fleet.supervisor import Supervisor
from nodes.python_process import child_environment
from nodes.runtime.child_node import ProgramNode, child_command

POLL_INTERVAL_S = 0.05


class TransactionFleet:
    """Up to ``nodes`` node processes of ``program`` (``MODULE:PROGRAM``), by their numbers.

    ``environment``: the settings that a node gets; ``sequencers``, ``accept_code``: as `holon txn run` has them.
    """

    def __init__(
        self,
        program: str,
        nodes: int,
        environment: Mapping[str, str] | None = None,
        *,
        sequencers: int,
        accept_code: bool = False,
    ) -> None:
        self._program = program
        self._sequencers = sequencers
        self._accept_code = accept_code
        self._environment = child_environment(environment or {})
        self._nodes = nodes
        self.members: list[FleetProcess] = []

    def start(self) -> None:
        """Start all nodes."""
        for number in range(self._nodes):
            self.add(number)

    def add(self, number: int) -> FleetProcess:
        """Start one node."""
        # A group of its own: Ctrl-C at the terminal reaches the parent alone, which sends it SIGTERM.
        program_node = ProgramNode(
            program=self._program,
            number=number,
            sequencers=self._sequencers,
            accept_code=self._accept_code,
            parent=os.getpid(),
        )
        process = subprocess.Popen(child_command(program_node), env=self._environment, process_group=0)
        member = FleetProcess(number, process)
        self.members.append(member)
        return member

    def request_stop(self, *, again: bool = False) -> None:
        """SIGTERM: all leave in order; a second one ends them at once."""
        for member in self.members:
            if member.process.poll() is None and (again or not member.stop_requested):
                member.stop_requested = True
                member.process.send_signal(signal.SIGTERM)


def stay(
    fleet: TransactionFleet, report: Callable[[str], None], on_wrong_pages: Callable[[], None] = lambda: None
) -> tuple[int, bool]:
    """Start the fleet and stay with it until all nodes have ended, by themselves or after SIGTERM or SIGINT.

    Returns how many ended with an error for good, and whether it was Ctrl-C. ``on_wrong_pages``: as
    ``Supervisor`` has it.
    """
    requested = interrupted = False

    def stop(signum: int, frame: object) -> None:
        nonlocal requested, interrupted
        fleet.request_stop(again=requested)
        interrupted |= not requested and signum == signal.SIGINT
        requested = True

    before = [(each, signal.signal(each, stop)) for each in (signal.SIGTERM, signal.SIGINT)]
    supervisor = Supervisor(fleet, report, on_wrong_pages=on_wrong_pages, lasting=True)
    try:
        fleet.start()
        report(f"{len(fleet.members)} nodes: {', '.join(str(member.process.pid) for member in fleet.members)}")
        while True:
            supervisor.check(time.monotonic(), lambda: requested)
            if requested:
                fleet.request_stop()  # one that was started just now
            if supervisor.exhausted:
                break
            time.sleep(POLL_INTERVAL_S)
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
    newest = {member.number: member for member in fleet.members}
    return sum(_has_failed(member) for member in newest.values() if member.stop_requested or not requested), interrupted


def _has_failed(member: FleetProcess) -> bool:
    code = member.process.returncode
    return code != 0 and not (member.stop_requested and code < 0)  # the signal came before its handlers were installed
