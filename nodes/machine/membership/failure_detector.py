"""The nodes that have been silent for too long, on this observer's own clock.

Two rules for this file. A suspicion is never more than a reason to claim, since a wrong one only costs work twice. An
observer counts against others only time in which it could have received their heartbeats.

Silence is measured in *running time*: the observer's clock, but a step counts for at most ``stall_after_ms``, and a
step backwards for nothing. So an observer that was paused, or whose clock jumps by an hour, accuses nobody of that.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodes.machine.facts import PartitionClaimed
from nodes.machine.membership.pace import LAST_RESORT_TIMES, Pace

LONGEST_TIMES = 100
"""No step counts for more than so many suspicions' times, whatever the clock does."""
LATE_CLAIM_TIMES = 8
"""A claim whose node had no heartbeat for so many failure timeouts came from behind a cut."""


class Detector:
    """The time of the last heartbeat, by node.

    Args: ``failure_timeout_ms`` of silence make a suspect. ``stall_after_ms`` (default a third of that): if the
    observer's own steps lie further apart, it was stalled, and suspects nobody until it has read the control topic to
    its end. Everyone's grace starts anew then, but only once between two heartbeats, so that a slow observer too
    finds a dead node in the end.
    """

    def __init__(self, failure_timeout_ms: int, stall_after_ms: int | None = None) -> None:
        if failure_timeout_ms <= 0 or (stall_after_ms is not None and stall_after_ms <= 0):
            raise ValueError(f"times must be above 0 ms, got {failure_timeout_ms} and {stall_after_ms}")
        self.failure_timeout_ms = failure_timeout_ms
        self.stall_after_ms = max(1, failure_timeout_ms // 3) if stall_after_ms is None else stall_after_ms
        self._now_ms: int | None = None
        self._running_ms = 0
        self._elapsed_ms = 0  # as running time, but long steps count
        self._longest_ms = LONGEST_TIMES * failure_timeout_ms
        self._blind = False
        self._last_record: dict[str, tuple[int, int]] = {}  # in running time, and as it elapsed
        self._last_heartbeat_ms: dict[str, int] = {}
        self._late_claims: dict[str, list[PartitionClaimed]] = {}  # by nodes without a heartbeat since
        self._graced: set[str] = set()
        self._members: list[str] = []
        self._suspects: list[str] | None = None  # of these members, as long as nothing can have changed
        self._until_ms = 0
        self.pace = Pace(failure_timeout_ms)

    @property
    def running_ms(self) -> int:
        """Running time since this observer began."""
        return self._running_ms

    def record_heartbeat(self, node: str, now_ms: int) -> None:
        """A heartbeat of the node was read."""
        self.wrote(node, now_ms)
        self._silence_ends(node)
        self._last_heartbeat_ms[node] = self._running_ms
        self.pace.record_heartbeat(node, self._running_ms)
        self._confirm_claims(node)

    def wrote(self, node: str, now_ms: int) -> None:
        """Another record of the node was read: it is alive, or was long ago, so this is no proof that it keeps pace.

        A write is retried behind a cut, until it is answered; a heartbeat is not.
        """
        self._step(now_ms)
        self._last_record[node] = self._running_ms, self._elapsed_ms
        self._graced.discard(node)
        if self._suspects and node in self._suspects:
            self._suspects = None

    def record_heartbeats(self, nodes: Sequence[str], now_ms: int) -> None:
        """Another node has received heartbeats of all of these."""
        self._step(now_ms)
        before_ms = self._running_ms - self.failure_timeout_ms
        for node in nodes:
            if self._last_heartbeat_ms.get(node, before_ms) < before_ms:
                self._silence_ends(node)
        self._last_record.update(dict.fromkeys(nodes, (self._running_ms, self._elapsed_ms)))
        self._last_heartbeat_ms.update(dict.fromkeys(nodes, self._running_ms))
        self._graced.difference_update(nodes)
        self.pace.record_heartbeats(nodes, self._running_ms)
        if self._late_claims:
            for node in sorted(self._late_claims.keys() & set(nodes)):
                self._confirm_claims(node)
        if self._suspects and not set(self._suspects).isdisjoint(nodes):
            self._suspects = None

    def _silence_ends(self, node: str) -> None:
        silence_ms = self._running_ms - self._last_heartbeat_ms.get(node, self._running_ms)
        if silence_ms > self.failure_timeout_ms:
            self.pace.was_silent(node, silence_ms, self._running_ms)

    def forget(self, node: str) -> None:
        """The node has left: it took nothing, and nothing was taken from another incarnation under its name."""
        self._late_claims.pop(node, None)
        for claimant, facts in self._late_claims.items():
            self._late_claims[claimant] = [fact for fact in facts if fact.previous != node]
        self._last_record.pop(node, None)
        self._last_heartbeat_ms.pop(node, None)
        self._graced.discard(node)
        self.pace.forget(node)
        self._suspects = None

    def stalled(self, now_ms: int) -> bool:
        """To be called at every step: True while this observer may not judge, and has to read the control topic on."""
        self._step(now_ms)
        return self._blind

    def caught_up(self, now_ms: int) -> None:
        """The control topic was read to its end, by a read that began after ``stalled`` gave True; else no effect."""
        was_stalled = self._blind
        self._step(now_ms)
        if not was_stalled:  # a stall that shows only now may have come between that read and this call
            return
        self._blind = False
        self._suspects = None
        for node in sorted(self._last_record.keys() - self._graced):
            self._last_record[node] = self._running_ms, self._elapsed_ms
            self._graced.add(node)

    def suspects(self, members: Sequence[str], now_ms: int) -> list[str]:
        """The members without a heartbeat for too long, sorted; for one that never had any, the time begins now."""
        self._step(now_ms)
        if self._suspects is None or self._running_ms >= self._until_ms or members != self._members:
            self._find_suspects(members)
        return [] if self._blind else list(self._suspects or [])

    def _find_suspects(self, members: Sequence[str]) -> None:
        """Go through all of them; until the first of the others can have been silent for too long, that holds."""
        self._members, self._suspects = list(members), []
        self._until_ms = self._running_ms + self.failure_timeout_ms
        for node in members:
            last_record_ms, _ = self._last_record.setdefault(node, (self._running_ms, self._elapsed_ms))
            due_ms = last_record_ms + self.failure_timeout_ms
            if due_ms <= self._running_ms:
                self._suspects.append(node)
            else:
                self._until_ms = min(self._until_ms, due_ms)
        self._suspects.sort()

    def claimed(self, fact: PartitionClaimed, now_ms: int) -> None:
        """A claim has won: its node may have taken the work of one that is alive.

        A late claim, of a node without a heartbeat for a failure timeout, counts once that node has a heartbeat again.
        A starved node goes on, and one that died behind a cut has taken nothing. A late claim never counts if the
        node's own work was taken meanwhile, or after ``LATE_CLAIM_TIMES``.
        """
        self._step(now_ms)
        silence_ms = self._running_ms - self._last_heartbeat_ms.get(fact.node, self._running_ms)
        if silence_ms < self.failure_timeout_ms:
            self.pace.claimed(fact, self._running_ms)
        elif silence_ms < LATE_CLAIM_TIMES * self.failure_timeout_ms and not self.pace.is_given_up(fact.node):
            self._late_claims.setdefault(fact.node, []).append(fact)

    def _confirm_claims(self, node: str) -> None:
        for fact in self._late_claims.pop(node, ()):
            self.pace.claimed(fact, self._running_ms)

    def may_take(self, me: str, owner: str, now_ms: int) -> bool:
        """Whether this observer may take a suspect's work already.

        A silence is evidence as far as the observer has read its own heartbeats meanwhile. One that does not read its
        own reads those of others no better: it is the last resort.
        """
        self._step(now_ms)
        last_record_ms, elapsed_ms = self._last_record.get(owner, (self._running_ms, self._elapsed_ms))
        if self._elapsed_ms - elapsed_ms < self.pace.patience_ms(self._elapsed_ms):
            return False
        times, usual_ms = (
            self.pace.times(me, owner, self._running_ms),
            self.pace.usual_silence_ms(owner, self._running_ms),
        )
        read_meanwhile_ms = self._last_heartbeat_ms.get(me, last_record_ms) - last_record_ms
        if 2 * read_meanwhile_ms < self.failure_timeout_ms:
            times = max(times, LAST_RESORT_TIMES)
        wary_ms = 0 if times == 1 else times * self.failure_timeout_ms
        return self._running_ms - last_record_ms >= max(wary_ms, usual_ms)

    def has_heartbeat(self, node: str, now_ms: int) -> bool:
        """Whether a heartbeat of the node was read within a failure timeout; the grace after a stall is none."""
        self._step(now_ms)
        heartbeat_ms = self._last_heartbeat_ms.get(node)
        return heartbeat_ms is not None and self._running_ms - heartbeat_ms < self.failure_timeout_ms

    def silence_ms(self, node: str, now_ms: int) -> int | None:
        """For display: how long the node has been silent in running time; None if it is not known."""
        self._step(now_ms)
        last = self._last_record.get(node)
        return None if last is None else self._running_ms - last[0]

    def _step(self, now_ms: int) -> None:
        if now_ms == self._now_ms:
            return
        passed_ms = 0 if self._now_ms is None else max(0, now_ms - self._now_ms)
        self._now_ms = now_ms
        self._running_ms += min(passed_ms, self.stall_after_ms)
        self._elapsed_ms += min(passed_ms, self._longest_ms)
        if passed_ms > self.stall_after_ms:
            self._blind = True
            self.pace.was_late(passed_ms, self._elapsed_ms, self._running_ms)
