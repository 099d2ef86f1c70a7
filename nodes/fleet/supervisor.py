"""Restarts the node processes of a fleet that crash, unless that cannot help or has not helped.

Two rules for this file. It knows no clock of its own. A node that left on purpose, or ended with a named error, is
never started again, unless the log or the store did not answer.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from nodes.fleet.processes import FleetProcess

RESTART_AFTER_S = 1.0
RESTARTS_A_MINUTE = 3
LONGEST_PAUSE_S = 30.0
QUIET_S = 60.0
ENVIRONMENT = 4
"""Exit code of a node whose log or store did not answer. A store that has answered once may come back at any time. Such
a node is started again as often as it takes, after pauses that double, and these starts are not counted against it.
"""
STARTS_IN_VAIN = 5
"""Of each node, while log and store have answered no node of the fleet yet: an address may be wrong."""
RAN_S = 20.0
"""Log and store have answered a node that ran for so long, whatever else is known of it."""
UNFORESEEN = 70
"""Exit code of a node that ended by an unexpected error."""
WRONG_PAGES = frozenset({-signal.SIGBUS, -signal.SIGSEGV, -signal.SIGABRT})
"""How a process ends that meets damaged pages of the embedded log, among other reasons."""


class Restarting(Protocol):
    """Node processes, one of which may be started again."""

    members: list[FleetProcess]

    def add(self, number: int) -> FleetProcess:
        """Start one node."""
        ...


@dataclass(slots=True)
class Supervisor:
    """Call ``check`` now and then.

    Args: ``report`` gets a line for each event. ``has_begun`` returns whether a node of the fleet has joined its
    job: then log and store have answered. ``on_wrong_pages`` is called before a node is started again that may have
    met damaged pages of the log. ``accused``: how many records the log accuses of ending their process; crashes before
    a new one do not count. ``lasting``: a fleet that has begun is not given up, its pauses double.
    """

    fleet: Restarting
    report: Callable[[str], None]
    has_begun: Callable[[], bool] = lambda: False
    on_wrong_pages: Callable[[], None] = lambda: None
    accused: Callable[[], int] = lambda: 0
    lasting: bool = False
    restarts: int = 0
    _began: bool = False
    _first_s: dict[int, float] = field(default_factory=dict)  # of the members, by identity: when they were first seen
    _in_vain: dict[int, int] = field(default_factory=dict)
    _due: list[tuple[float, int]] = field(default_factory=list)
    _times: dict[int, list[float]] = field(default_factory=dict)
    _pauses: dict[int, tuple[float, float]] = field(default_factory=dict)  # of the last: when, how long
    _accused: int = 0
    _seen: int = 0
    _watched: list[FleetProcess] = field(default_factory=list)

    def check(self, now_s: float, is_over: Callable[[], bool]) -> None:
        """Detect nodes that have ended, and start those again that are due.

        ``is_over`` returns whether the job has ended or its nodes were requested to leave. It is called after the
        processes were polled, so that what they wrote before they ended can be known.
        """
        self._watched += self.fleet.members[self._seen :]
        self._seen = len(self.fleet.members)
        for member in self._watched:
            self._began |= now_s - self._first_s.setdefault(id(member), now_s) >= RAN_S
        self._began |= not self._began and self.has_begun()
        ended = [member for member in self._watched if member.process.poll() is not None]
        self._watched = [member for member in self._watched if member not in ended]
        over = is_over()
        if over:
            self._due.clear()
        for member in ended:
            self._ended(member, now_s, over)
        for due_s, number in list(self._due):
            if due_s <= now_s:
                self._due.remove((due_s, number))
                self.restarts += 1
                self.fleet.add(number)

    @property
    def exhausted(self) -> bool:
        """True if no node runs and none will be started."""
        return self._seen == len(self.fleet.members) and not self._watched and not self._due

    def _ended(self, member: FleetProcess, now_s: float, over: bool) -> None:
        number, code = member.number, member.process.returncode
        if member.killed or (code == 0 and over):
            return
        how = f"node {number} has ended: {member.ending}"
        if code in WRONG_PAGES:
            self.on_wrong_pages()
        if over:
            if not (member.stop_requested and code < 0):  # the signal came before its handlers were installed
                self.report(how)
            return
        if code == 0:
            how += ", although the job is not done (does the job's code end the process?)"
        elif code == ENVIRONMENT:
            self._in_vain[number] = 0 if self._began else self._in_vain.get(number, 0) + 1
            if self._in_vain[number] > STARTS_IN_VAIN:
                self.report(f"{how}; given up, as log or store have not answered any node since the start")
                return
            self._start_again(number, now_s, self._pause_s(number, now_s), how)
            return
        elif code > 0 and code != UNFORESEEN:
            self.report(f"{how}; not started again, as that would not help")
            return
        if (accused := self.accused()) > self._accused:
            self._accused = accused
            self._times.clear()
        times = [time_s for time_s in self._times.get(number, []) if now_s - time_s < QUIET_S]
        if len(times) >= RESTARTS_A_MINUTE:
            if self.lasting and self._began:
                self._start_again(number, now_s, self._pause_s(number, now_s), how)
                return
            self.report(f"{how}; given up after {len(times)} restarts within a minute")
            return
        self._times[number] = [*times, now_s]
        self._start_again(number, now_s, RESTART_AFTER_S, how)

    def _pause_s(self, number: int, now_s: float) -> float:
        """Twice the pause before, unless the node has run for long since."""
        ended_s, before_s = self._pauses.get(number, (now_s, 0.0))
        fresh = before_s == 0.0 or now_s - ended_s - before_s > QUIET_S
        pause_s = RESTART_AFTER_S if fresh else min(2 * before_s, LONGEST_PAUSE_S)
        self._pauses[number] = (now_s, pause_s)
        return pause_s

    def _start_again(self, number: int, now_s: float, after_s: float, how: str) -> None:
        self._due.append((now_s + after_s, number))
        self.report(f"{how}; starting it again in {after_s:.0f} s")
