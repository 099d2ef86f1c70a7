"""Which members keep pace: a node that was taken from by mistake is given nothing until it has proven that it does.

Two rules for this file. Time is the observer's running time, so that its own pauses prove nothing about others. A node
that is dead, or begins a new incarnation, is no case of this, so no first failover is later for it.

Starved nodes are silent again and again, and heartbeats of idle ones among them are in time. Each move costs them work
that they have no time for, so work stays where it is. After one theft a node's heartbeats have to be in time for a
while before it is heir again, longer each time. Suspicions of it, by it and of an observer that is late itself take
longer. Silences that have ended are evidence too: N. Hayashibara et al., "The phi accrual failure detector", 2004.
Deviation: three times the third longest of late, in place of a distribution; few silences are that long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from nodes.machine import facts as f

PROOF_TIMES = 32
"""For so many failure timeouts a node's heartbeats have to be in time after its first mistake."""
PROOF_GROWTH = 2
"""Each further mistake multiplies that time."""
WARY_TIMES = 8
"""A node that was once taken for dead may be silent for so many times as long; twice as long after each mistake."""
LAST_RESORT_TIMES = 32
"""So long another one has to be silent until an observer takes its work that has proven nothing itself."""
MOST_TIMES = 64
REMEMBERED_TIMES = 2_000
"""So many suspicions' times after a mistake it is forgotten: ten minutes at 300 ms."""
LATE_STEPS = 3
LATE_WITHIN_TIMES = 100
"""How late an observer is itself: the longest step but two of so many suspicions' times. One pause is no lateness."""
LATENESS_MOST_TIMES = 10
PATIENCE_STEPS = 3
"""So many steps of that length a node has to be silent."""
USUAL_SILENCES = 3
"""So many silences of late that were longer than a suspicion takes, and ended, are what is usual for a node."""
USUAL_WITHIN_TIMES = 200
USUAL_TIMES = 3
"""So many times as long as the shortest of the longest three a node has to be silent, to be taken from."""
MOST_LATE = 100
MOST_SILENCES = 32


@dataclass(slots=True)
class _Case:
    """A node whose units were taken. ``mistakes``: how often it turned out to be alive."""

    taken_ms: int
    mistakes: int = 0
    is_alive: bool = False  # it has sent a heartbeat since its work was taken
    proven: bool = False
    last_heartbeat_ms: int | None = None
    in_time_since_ms: int = 0


class Pace:
    """Of one observer; times in its running time. ``failure_timeout_ms`` of silence make a suspect."""

    def __init__(self, failure_timeout_ms: int) -> None:
        self._failure_timeout_ms = failure_timeout_ms
        self._cases: dict[str, _Case] = {}
        self._silences: dict[str, deque[tuple[int, int]]] = {}  # when they ended, and how long they were
        self._late: deque[tuple[int, int]] = deque(maxlen=MOST_LATE)  # when, and how long

    # --- what happens -----------------------------------------------------------------------------------------------

    def claimed(self, fact: f.PartitionClaimed, now_ms: int) -> None:
        """A claim has won; the unit's owner until then was taken for dead."""
        if fact.previous in (None, fact.node):
            return
        case = self._cases.get(fact.previous)
        if case is None:
            self._cases[fact.previous] = _Case(now_ms)
        elif case.is_alive and case.proven:
            case.taken_ms, case.is_alive, case.proven, case.last_heartbeat_ms = now_ms, False, False, None

    def record_heartbeat(self, node: str, now_ms: int) -> None:
        """A heartbeat."""
        case = self._cases.get(node)
        if case is None or (case.is_alive and case.proven):
            return
        if not case.is_alive:
            if now_ms - case.taken_ms >= REMEMBERED_TIMES * self._failure_timeout_ms:
                case.mistakes = 0
            case.is_alive, case.mistakes, case.in_time_since_ms = True, case.mistakes + 1, now_ms
        if case.last_heartbeat_ms is None or 2 * (now_ms - case.last_heartbeat_ms) > self._failure_timeout_ms:
            case.in_time_since_ms = now_ms
        case.last_heartbeat_ms = now_ms
        proof_ms = PROOF_TIMES * PROOF_GROWTH ** min(case.mistakes - 1, 4) * self._failure_timeout_ms
        case.proven = now_ms - case.in_time_since_ms >= proof_ms

    def record_heartbeats(self, nodes: Collection[str], now_ms: int) -> None:
        """Heartbeats of many; only those count that were taken from, which are few."""
        if self._cases:
            for node in sorted(self._cases.keys() & set(nodes)):
                self.record_heartbeat(node, now_ms)

    def was_late(self, step_ms: int, elapsed_ms: int, now_ms: int) -> None:
        """The observer's own step was late: heartbeats that it has read late may have been in time."""
        self._late.append((elapsed_ms, step_ms))
        for case in self._cases.values():
            case.in_time_since_ms = now_ms

    def was_silent(self, node: str, silence_ms: int, now_ms: int) -> None:
        """The node's heartbeats are back, after a silence that is longer than the failure timeout."""
        self._silences.setdefault(node, deque(maxlen=MOST_SILENCES)).append((now_ms, silence_ms))

    def forget(self, node: str) -> None:
        """That incarnation is over; another one under this name is another node."""
        self._cases.pop(node, None)
        self._silences.pop(node, None)

    # --- what follows -----------------------------------------------------------------------------------------------

    def unproven(self) -> frozenset[str]:
        """Nodes that were taken from, and keep what they have but get nothing."""
        return frozenset(node for node, case in self._cases.items() if not case.proven)

    def is_given_up(self, node: str) -> bool:
        """Whether its work was taken, and it has sent no heartbeat since."""
        case = self._cases.get(node)
        return case is not None and not case.is_alive

    def times(self, me: str, owner: str, now_ms: int) -> int:
        """How many times as long as usual ``owner`` has to be silent until ``me``, the observer, may take its work."""
        case = self._cases.get(me)
        own = 1 if case is None else self._wary_of(me, now_ms) if case.proven else LAST_RESORT_TIMES
        return max(self._wary_of(owner, now_ms), own)

    def patience_ms(self, elapsed_ms: int) -> int:
        """So much time, paused or not, a node has to be silent because the observer itself is late."""
        while self._late and elapsed_ms - self._late[0][0] >= LATE_WITHIN_TIMES * self._failure_timeout_ms:
            self._late.popleft()
        if len(self._late) < LATE_STEPS:
            return 0
        lateness_ms = sorted(step_ms for _, step_ms in self._late)[-LATE_STEPS]
        return PATIENCE_STEPS * min(lateness_ms, LATENESS_MOST_TIMES * self._failure_timeout_ms)

    def usual_silence_ms(self, node: str, now_ms: int) -> int:
        """A silence that is usual for this node, since it has been silent for about so long several times; or 0."""
        since_ms = now_ms - USUAL_WITHIN_TIMES * self._failure_timeout_ms
        late = sorted(silence_ms for ended_ms, silence_ms in self._silences.get(node, ()) if ended_ms >= since_ms)
        if len(late) < USUAL_SILENCES:
            return 0
        return min(USUAL_TIMES * late[-USUAL_SILENCES], MOST_TIMES * self._failure_timeout_ms)

    def _wary_of(self, node: str, now_ms: int) -> int:
        case = self._cases.get(node)
        if case is None or not case.mistakes or now_ms - case.taken_ms >= REMEMBERED_TIMES * self._failure_timeout_ms:
            return 1
        return min(WARY_TIMES << min(case.mistakes - 1, 8), MOST_TIMES)
