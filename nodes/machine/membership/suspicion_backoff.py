"""Nodes that were taken for dead and took their work back: the next time they may be silent for longer.

Two nodes without each other's heartbeats would steal a partition from each other for ever. Where loading takes about as
long as a suspicion, neither would ever get on. A node that is really dead takes nothing back, so no failover is later
for this. Longer after each mistake: Chandra and Toueg, "Unreliable failure detectors for reliable distributed systems",
1996, section 6. Deviation: it is forgotten after a while.
"""

from __future__ import annotations

from nodes.machine import facts as f

MOST_TIMES = 8
CALM_TIMES = 100
"""So many suspicions' times after the last mistake a node is treated like all others again."""


class SuspicionBackoff:
    """Of the node ``me``; ``failure_timeout_ms`` of silence make a suspect."""

    def __init__(self, me: str, failure_timeout_ms: int) -> None:
        self._me = me
        self._failure_timeout_ms = failure_timeout_ms
        self._taken: dict[int, str] = {}  # units that this node took, and from whom
        self._times: dict[str, tuple[int, int]] = {}  # how many times as long, and since when

    def claimed(self, fact: f.PartitionClaimed, now_ms: int) -> None:
        """A claim has won."""
        if fact.node == self._me:
            if fact.previous is not None:
                self._taken[fact.partition] = fact.previous
        elif self._taken.pop(fact.partition, None) == fact.node and fact.previous == self._me:
            times = 2 * self._times_of(fact.node, now_ms)
            self._times[fact.node] = min(times, MOST_TIMES), now_ms

    def may_take(self, owner: str, silence_ms: int | None, now_ms: int) -> bool:
        """Whether a suspect's work may be taken: ``silence_ms`` is how long it has been silent."""
        times = self._times_of(owner, now_ms)
        return times == 1 or (silence_ms or 0) >= times * self._failure_timeout_ms

    def _times_of(self, node: str, now_ms: int) -> int:
        times, since_ms = self._times.get(node, (1, now_ms))
        return times if 0 <= now_ms - since_ms < CALM_TIMES * self._failure_timeout_ms else 1
