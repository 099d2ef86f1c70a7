"""Restarts the node processes of a fleet that crash, unless that cannot help or has not helped.

Two rules for this file: it knows no clock of its own; a node that left on purpose, or that said in a named error why it
cannot go on, is never started again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from nodes.fleet import Member

RESTART_AFTER_S = 1.0
RESTARTS_A_MINUTE = 3
HEALED_BY_RESTART = (4, 70)
"""Exit codes of a node: a log or store that did not answer, and an error that nobody foresaw."""


class Restarting(Protocol):
    """Node processes, one of which may be started again."""

    members: list[Member]

    def add(self, number: int) -> Member:
        """Start one node."""
        ...


@dataclass(slots=True)
class Supervisor:
    """Call ``look`` now and then.

    Args: ``say`` gets a line for each thing that happens.
    """

    fleet: Restarting
    say: Callable[[str], None]
    restarts: int = 0
    _due: list[tuple[float, int]] = field(default_factory=list)
    _times: dict[int, list[float]] = field(default_factory=dict)
    _seen: int = 0
    _watched: list[Member] = field(default_factory=list)

    def look(self, now_s: float, is_over: Callable[[], bool]) -> None:
        """See who has ended, and start again who is due.

        ``is_over`` says whether the job has ended or its nodes were asked to leave. It is asked after the processes
        were looked at, so that what they wrote before they ended can be known.
        """
        self._watched += self.fleet.members[self._seen :]
        self._seen = len(self.fleet.members)
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

    def _ended(self, member: Member, now_s: float, over: bool) -> None:
        number, code = member.number, member.process.returncode
        if member.killed or (code == 0 and over):
            return
        how = f"node {number} has ended: {member.ending}"
        if over:
            if not (member.asked and code < 0):  # asked before it had begun to listen
                self.say(how)
            return
        if code == 0:
            how += ", although the job is not done (does the job's code end the process?)"
        elif code > 0 and code not in HEALED_BY_RESTART:
            self.say(f"{how}; not started again, as that would not help")
            return
        times = [time_s for time_s in self._times.get(number, []) if now_s - time_s < 60.0]
        if len(times) >= RESTARTS_A_MINUTE:
            self.say(f"{how}; given up after {len(times)} restarts within a minute")
            return
        self._times[number] = [*times, now_s]
        self._due.append((now_s + RESTART_AFTER_S, number))
        self.say(f"{how}; starting it again in {RESTART_AFTER_S:.0f} s")
