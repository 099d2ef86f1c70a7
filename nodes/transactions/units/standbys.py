"""A node's work as a standby of units that others own: which units, their records on the log, when to publish."""

from __future__ import annotations

from collections.abc import Callable, Collection

from nodes.log.contract import Log, OffsetOutOfRange, TopicPartition
from nodes.machine.ownership.claims import Claiming
from nodes.machine.ownership.succession import Succession
from nodes.transactions.topics import TransactionTopics
from transactional import events as e
from transactional.node import TransactionNode
from transactional.standby import reply_name

PATIENCE_MS = 20
ACTIVE_MS = 1000
"""So long an active standby writes all that it makes: its owner may be dead, and found so later."""
MOST_PATIENCE_MS = 240
CALM_MS = 2_000
"""So long after a false alarm, which the first burst may be, the patience returns to its first value."""


class Standbys:
    """``replicas`` in all, the owner's included. Times are the node's clock but for ``wall_ms``, as in ``step``."""

    def __init__(
        self,
        log: Log,
        topics: TransactionTopics,
        claiming: Claiming,
        replicas: int,
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._topics = topics
        self._claiming = claiming
        self._succession = Succession(claiming.node, claiming.groups, replicas)
        self._clock_ms = clock_ms
        self._wall_ms = wall_ms
        self._replies_at: dict[int, int] = {}
        self._activated_ms: dict[int, int] = {}
        self._patience_ms = PATIENCE_MS
        self.published = 0

    def units(self, node: TransactionNode) -> Collection[int]:
        """Units that this node should be a standby of, or stay one for a while."""
        claiming = self._claiming
        if self._succession.replicas < 2 or not claiming.joined or claiming.leaving:
            return ()
        ownership = claiming.ownership
        live = [name for name in claiming.member.live(self._clock_ms()) if not ownership.is_stopping(name)]
        owners = ownership.owners()
        detector = claiming.detector
        return self._succession.ranks(live, owners, detector.pace.unproven(), node.standbys, detector.running_ms)

    def begins(self, partition: int) -> None:
        """To be called before the last reply of a partition is read."""
        self._replies_at[partition] = self._log.end_offset(self._topics.replies, partition)

    def waits_for(self, node: TransactionNode) -> dict[TopicPartition, int]:
        """Where new replies of others would come."""
        return {TopicPartition(self._topics.replies, p): self._replies_at[p] for p in self._partitions(node)}

    def turn(self, node: TransactionNode, ready: Collection[TopicPartition] | None) -> None:
        """See what others have replied."""
        for partition in self._partitions(node):
            if ready is not None and TopicPartition(self._topics.replies, partition) not in ready:
                continue
            try:
                chunk = self._log.poll(self._topics.replies, partition, self._replies_at[partition])
            except OffsetOutOfRange:
                self._replies_at[partition] = self._log.start_offset(self._topics.replies, partition)
                continue
            self._replies_at[partition] = chunk.next_offset
            if chunk.values:
                node.receive(e.RepliesLogged(partition, max(reply_name(value) for value in chunk.values)))

    def watches(self, node: TransactionNode) -> bool:
        """Whether a standby has something ready that its owner has to write: then it checks often how late that is."""
        done = node.ledger.done
        return any(standby.watches(done) for standby in node.standbys.values() if not standby.is_active)

    def activate_late(self, node: TransactionNode) -> bool:
        """Activate the standbys of owners that are late; True if one is.

        An owner that is late with one unit is late with all: the next epoch would wait for its other units as long
        again.
        """
        now_ms, owners = self._clock_ms(), self._claiming.ownership.owners()
        for unit, standby in node.standbys.items():
            activated_ms = self._activated_ms.get(unit)
            if standby.is_active and (activated_ms is None or not 0 <= now_ms - activated_ms < ACTIVE_MS):
                node.receive(e.StandbyDeactivated(unit))
        silent = [unit for unit, standby in sorted(node.standbys.items()) if not standby.is_active]
        before_ms = self._wall_ms() - self._patience_ms
        late = {owners.get(unit) for unit in silent if node.standbys[unit].is_late(node.ledger, before_ms)}
        for unit in silent:
            if owners.get(unit) in late:
                node.receive(e.StandbyActivated(unit))
                self._activated_ms[unit] = now_ms
                self.published += 1
        if late:  # where that happens again and again, the machine is slow and no node dead
            self._patience_ms = min(2 * self._patience_ms, MOST_PATIENCE_MS)
        elif all(now_ms - activated_ms > CALM_MS for activated_ms in self._activated_ms.values()):
            self._patience_ms = PATIENCE_MS
        return bool(late)

    def _partitions(self, node: TransactionNode) -> list[int]:
        first = node.ledger.sequencers
        return [unit - first for unit in sorted(node.standbys) if unit >= first and unit - first in self._replies_at]
