"""Handing partitions over: what a node of a streaming job does about claims and offers.

Two rules for this file: a partition that is offered is released behind its last checkpoint; a node that joins waits for
others that are expected.
"""

from __future__ import annotations

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.membership.member import Membership
from nodes.machine.ownership.sharing import Sharing
from nodes.machine.workload import Workload


class Handover:
    """The work of one node on ownership, whenever it has read the control topic to its end."""

    def __init__(self, config: NodeConfig, member: Membership, work: Workload) -> None:
        self.config = config
        self.member = member
        self.ownership = member.ownership
        self.detector = member.detector
        self.work = work
        self.sharing = Sharing(config.node, member.ownership, member.detector)
        self._situation: tuple[int, list[str], frozenset[str]] | None = None

    def assign(self, code_hash: str, now_ms: int, waited_ms: int) -> None:
        """Claim what should be this node's, offer what should be another's; ``waited_ms`` since its Hello."""
        members = self.ownership.members
        if self.detector.stalled(now_ms) or self._waits_for_others(len(members), waited_ms):
            return
        found = self.member.suspects(now_ms)
        situation = self.ownership.changes, found, self.detector.pace.unproven()
        due = self.sharing.are_due()
        if situation != self._situation or self.config.replicas > 1 or due:
            self._situation = situation
            self._share_out(set(found), code_hash, now_ms)
        for goodbye in self.member.gone(now_ms):
            self.work.control(goodbye)

    def _share_out(self, suspects: set[str], code_hash: str, now_ms: int) -> None:
        barred = {failure.partition for failure in self.ownership.failures(code_hash)}
        decisions = self.sharing.decide(suspects, now_ms, barred)
        for partition, version in decisions.claims:
            self.work.control(m.Claim(self.work.run.incarnation, self.config.node, partition, version))
        for partition, node in decisions.offers:
            self._offer(partition, node)
        if decisions.again or decisions.offers:  # an offer may have to be made again
            self._situation = None
        members, stopping = self.ownership.members, self.ownership.is_stopping
        live = sorted(node for node in members if node not in suspects and not stopping(node))
        self.work.replicas.designate(live, self.ownership.owners(), self.detector.pace.unproven())

    def claimed(self, fact: f.PartitionClaimed, now_ms: int) -> None:
        """A claim has won."""
        self.sharing.claimed(fact, now_ms)

    def _waits_for_others(self, members: int, waited_ms: int) -> bool:
        return members < self.config.expected and waited_ms < self.config.expect_ms

    def _offer(self, partition: int, to: str) -> None:
        runner = self.work.runners.get(partition)
        if runner is not None and runner in self.work.owned() and not runner.task.done:
            runner.offer(to)
