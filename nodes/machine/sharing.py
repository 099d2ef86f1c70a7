"""Sharing the partitions out: which this node claims, and which it offers to others.

Two rules for this file: a partition moves only to balance or because its owner is gone; whoever is alive hands over,
and is not stolen from.
"""

from __future__ import annotations

from collections.abc import Collection

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.assignment import target
from nodes.machine.config import NodeConfig
from nodes.machine.detector import Detector
from nodes.machine.merging import Merging
from nodes.machine.orphans import Orphans
from nodes.machine.ownership import Ownership
from nodes.machine.returning import Returning
from nodes.machine.workload import Workload


class Sharing:
    """What one node does about ownership, whenever it has read the control topic to its end."""

    def __init__(
        self, config: NodeConfig, ownership: Ownership, detector: Detector, work: Workload, merging: Merging
    ) -> None:
        self.config = config
        self.ownership = ownership
        self.detector = detector
        self.work = work
        self.merging = merging
        self.returning = Returning(config.node, config.suspect_after_ms)
        self.orphans = Orphans(config.suspect_after_ms)
        self._claimed: dict[int, int] = {}
        self._others: tuple[int, list[str]] = (-1, [])
        self._situation: tuple[int, list[str], frozenset[str]] | None = None
        self._forgotten: set[str] = set()

    def assign(self, code_hash: str, now_ms: int, waited_ms: int) -> None:
        """Claim what should be this node's, offer what should be another's; ``waited_ms`` since its Hello."""
        members = self.ownership.members
        if self.detector.stalled(now_ms) or self._waits_for_others(len(members), waited_ms):
            return
        found = self.suspects(now_ms)
        situation = self.ownership.changes, found, self.detector.pace.unproven()
        due = self.orphans.are_due(self.detector.running_ms)
        if situation != self._situation or self.config.replicas > 1 or due:
            self._situation = situation
            self._share_out(set(found), code_hash, now_ms)
        for node in found:
            self._maybe_forget(node, now_ms)

    def suspects(self, now_ms: int) -> list[str]:
        """The other members that have been silent for too long."""
        if self._others[0] != self.ownership.changes:
            others = [node for node in self.ownership.members if node != self.config.node]
            self._others = self.ownership.changes, others
        return self.detector.suspects(self._others[1], now_ms)

    def _share_out(self, suspects: set[str], code_hash: str, now_ms: int) -> None:
        members = self.ownership.members
        alive = {n for n in members if n not in suspects}
        live = sorted(n for n in alive if not self.ownership.is_stopping(n))
        owners, keeping = self.ownership.owners(), self.detector.pace.unproven()
        running_ms = self.detector.running_ms
        self.orphans.look((p for p, owner in owners.items() if owner not in alive), running_ms)
        for partition, node in target(self.ownership.partitions, live, owners, keeping).items():
            owner = owners[partition]
            if owner is None and self._is_offered(partition, keeping):
                self._claim(partition, code_hash)
            elif node == self.config.node and owner not in alive:  # who leaves hands it over
                if self._may_take(owner, now_ms):
                    self._claim(partition, code_hash)
                else:
                    self._situation = None  # later, if it stays silent
            elif self.config.node in live and self.orphans.may_take(partition, running_ms):
                self._claim(partition, code_hash)
            elif owner == self.config.node and node != owner:
                self._situation = None  # it may have to be offered again
                self._offer(partition, node)
        self.work.copies.designate(live, owners, keeping)

    # --- lives of nodes -----------------------------------------------------------------------------------------

    def greet(self) -> None:
        """A life of this node begins."""
        node = self.config.node
        life = self.ownership.life(node) + 1
        self.work.control(m.Hello(self.work.run.incarnation, node, self.config.number, life))

    def stop(self) -> None:
        """This life of this node hands over what it has."""
        node = self.config.node
        self.work.control(m.Leaving(self.work.run.incarnation, node, self.ownership.life(node)))

    def leave(self, node: str) -> None:
        """That life of a node is over, as this node knows it."""
        self.work.control(m.Goodbye(self.work.run.incarnation, node, self.ownership.life(node)))

    # --- work ---------------------------------------------------------------------------------------------------

    def claimed(self, fact: f.PartitionClaimed, now_ms: int) -> None:
        """A claim has won."""
        self.returning.claimed(fact, now_ms)
        self.detector.claimed(fact, now_ms)

    def _is_offered(self, partition: int, keeping: Collection[str]) -> bool:
        """For the owner this node keeps pace again, before it knows so itself."""
        return self.config.node in keeping and self.ownership.released_to(partition) == self.config.node

    def _may_take(self, owner: str | None, now_ms: int) -> bool:
        if owner is None:
            return True
        returning = self.returning.may_take(owner, self.detector.silence_ms(owner, now_ms), now_ms)
        return returning and self.detector.may_take(self.config.node, owner, now_ms)

    def _waits_for_others(self, members: int, waited_ms: int) -> bool:
        return members < self.config.expected and waited_ms < self.config.expect_ms

    def _claim(self, partition: int, code_hash: str) -> None:
        version = self.ownership.version(partition) + 1
        if self._claimed.get(partition) != version and self.ownership.failure(partition, code_hash) is None:
            self._claimed[partition] = version
            self.work.control(m.Claim(self.work.run.incarnation, self.config.node, partition, version))

    def _offer(self, partition: int, to: str) -> None:
        runner = self.work.runners.get(partition)
        if runner is not None and runner in self.work.owned() and not runner.task.done:
            runner.releasing_to = to

    def _maybe_forget(self, node: str, now_ms: int) -> None:
        """A member without partitions that has been silent for very long is gone; else it joins anew.

        Members would pile up otherwise, one for each node that was ever killed.
        """
        silent_ms = self.detector.silence_ms(node, now_ms) or 0
        if silent_ms < self.config.forget_after_ms or node in self._forgotten or self.ownership.owned_by(node):
            return
        if self.merging.maker(self.ownership) == self.config.node:  # one node is enough for it
            self._forgotten.add(node)
            self.leave(node)
