"""Claims without handing over: which units of a job this node works on, where overlap costs work and nothing else.

Units are counted from 0, and what one is does not matter here. The node that is to have a unit claims it when it is
free or its owner silent. The owner of one that should move releases it, and works on until another has claimed it: that
one claims it once it is abreast. A node that leaves hands over all that it has in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.control_state import ControlState
from nodes.machine.membership.member import Membership
from nodes.machine.ownership.code_rule import CodeRule
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.ownership.sharing import Sharing

FORGET_AFTER_MS = 60_000
"""So long a member without units may be silent before another one writes its Goodbye."""


HELD_TIMES, HELD_BY_LIVING_TIMES = 16, 120
"""So many suspicions' times a node may take to be abreast with a unit whose last owner has gone, or works on. Not for
ever: checkpoints of a unit count only while it has an owner."""
MAX_CHECKS = 3
"""Silences that make a suspect, after which a node that is none is taken to be at work."""


class Claiming:
    """The part of a node that has to do with others. ``owned`` is what it works on, ascending.

    ``groups``: sizes of ranges of units, each shared out evenly by itself; () takes all units as one. ``rule`` decides
    with which code it may join, and stay.
    """

    def __init__(
        self,
        node: str,
        number: int,
        incarnation: int,
        units: int,
        *,
        failure_timeout_ms: int,
        groups: Sequence[int] = (),
        forget_after_ms: int = FORGET_AFTER_MS,
        rule: CodeRule | None = None,
    ) -> None:
        assert not groups or sum(groups) == units, f"groups {groups} of {units} units"
        self._rule = rule
        self._checked_since_ms: int | None = None  # since then it is looked for nodes with other code
        self.groups = tuple(groups) or (units,)
        self.node = node
        self.number = number
        self.incarnation = incarnation
        self.ownership = Ownership(units, owners_save=True)
        self.member = Membership(
            node,
            number,
            incarnation,
            self.ownership,
            failure_timeout_ms=failure_timeout_ms,
            forget_after_ms=forget_after_ms,
            restarts=False,
        )
        self.detector = self.member.detector
        self.sharing = Sharing(node, self.ownership, self.detector, self.groups)
        self.leaving = False  # it hands over, or has left
        self._has_left = False
        self._commands = 0
        self._owned: set[int] = set()
        self._released: dict[int, int] = {}
        self._released_by: dict[int, str] = {}  # units without an owner, and the last one
        self._incoming: set[int] = set()  # units that another one works on for this node
        self._incoming_since_ms: dict[int, int] = {}  # also while the last owner has such a unit back for a moment

    @property
    def owned(self) -> list[int]:
        return sorted(self._owned)

    @property
    def incoming(self) -> list[int]:
        """Units that this node claims once it is abreast: another one works on them until then."""
        return sorted(self._incoming)

    @property
    def joined(self) -> bool:
        return self.member.joined

    def needs_end(self, now_ms: int) -> bool:
        """Whether the control topic has to be known to its end now."""
        return self.member.needs_end(now_ms)

    def receive_heartbeats(self, values: list[bytes], now_ms: int) -> None:
        """Records of the heartbeat topic."""
        self.member.heartbeats(values, now_ms)

    def control(self, values: list[bytes], at_end: bool, now_ms: int, abreast: Collection[int] = ()) -> list[bytes]:
        """Records of the control topic, in order; gives what to append to it. ``abreast``: units that it could claim.

        Raises ``BadMessage`` at one of a newer version, ``JobMismatch`` where the job goes on with other code.
        """
        self.detector.stalled(now_ms)
        for fact in self.member.facts(values, now_ms):
            self._learn(fact, now_ms)
        if not at_end or self._has_left or self.ownership.incarnation != self.incarnation:
            return []
        if self.leaving and not self.joined:
            return []  # others took it for dead
        if self._rule is not None and self.joined:
            self._rule.check_member(self.ownership)
        if not self.member.greeted:
            if self._rule is not None and not self._rule.holds(self.ownership):
                return [] if self._rule.awaits else self._declared(self._rule, now_ms)
            return [m.encode(self.member.hello(now_ms))]
        self.detector.caught_up(now_ms)
        return self._share_out(now_ms, abreast) if self.joined else []

    def _declared(self, rule: CodeRule, now_ms: int) -> list[bytes]:
        """The record that makes this node's code one of the job's, once it is known whether others are at work.

        A node that is silent for as long as a suspicion takes is dead; heartbeats at first mean nothing, since those of
        dead nodes are still on the log.
        """
        rule.check_state(self.ownership)
        self.detector.caught_up(now_ms)
        living = [node for node in self.member.live(now_ms) if node != self.node]
        if self._checked_since_ms is None:
            self._checked_since_ms = self.detector.running_ms
        if living and self.detector.running_ms - self._checked_since_ms < MAX_CHECKS * self.detector.failure_timeout_ms:
            return []
        self._checked_since_ms = None
        name, argument = rule.declare(self.ownership, living)
        self._commands += 1
        return [m.encode(m.Command(self.incarnation, name, argument, f"{self.node} {self._commands}"))]

    def restore(self, state: ControlState) -> None:
        """Go on from what others have folded: records that this node has not read are gone.

        It keeps the units that it owns by that, and writes Hello (again) unless it is a member.
        """
        self.member.restore(state)
        if self._rule is not None:
            self._rule.accepted(None)
        self._owned = set(self.ownership.owned_by(self.node))
        self._forget_incoming()

    def begin_leaving(self) -> list[bytes]:
        """The record after which this node is given nothing more and offers its units; it works on them meanwhile."""
        self.leaving = True
        return [m.encode(self.member.leaving())] if self.joined else []

    def has_handed_over(self, now_ms: int) -> bool:
        """Whether other nodes own what this leaving one had, or no other living node could."""
        if not self.joined or not self._owned:
            return True
        is_stopping = self.ownership.is_stopping
        return all(node == self.node or is_stopping(node) for node in self.member.live(now_ms))

    def leave(self) -> list[bytes]:
        """All that this node has is free."""
        self.leaving = self._has_left = True
        return [m.encode(self.member.goodbye(self.node))]

    def _forget_incoming(self) -> None:
        self._incoming.clear()
        self._incoming_since_ms.clear()

    def _learn(self, fact: f.Fact, now_ms: int) -> None:
        match fact:
            case f.NodeLeft(node) if node == self.node:
                self._owned.clear()
                self._forget_incoming()
            case f.CodeAccepted(version) if self._rule is not None:
                self._rule.accepted(version)
            case f.PartitionReleased(unit, _, node):
                self._released_by[unit] = node
            case f.PartitionClaimed(unit, node):
                self.sharing.claimed(fact, now_ms)
                self._incoming.discard(unit)
                if node != self._released_by.pop(unit, None):
                    self._incoming_since_ms.pop(unit, None)
                if node == self.node:
                    self._owned.add(unit)
                else:
                    self._owned.discard(unit)

    def _late(self, suspects: Collection[str]) -> list[int]:
        """The incoming units that this node claims by now, abreast or not."""
        living = self.ownership.members.keys() - set(suspects)
        running_ms, timeout_ms = self.detector.running_ms, self.detector.failure_timeout_ms
        found: list[int] = []
        for unit in sorted(self._incoming):
            times = HELD_BY_LIVING_TIMES if self._released_by.get(unit) in living else HELD_TIMES
            if running_ms - self._incoming_since_ms[unit] >= times * timeout_ms:
                found.append(unit)
        return found

    def _share_out(self, now_ms: int, abreast: Collection[int]) -> list[bytes]:
        running_ms, units = self.detector.running_ms, range(self.ownership.partitions)
        suspects = self.member.suspects(now_ms)
        released = {unit for unit in units if self.ownership.released_to(unit) is not None} - self._owned
        decisions = self.sharing.decide(suspects, now_ms, released.difference(abreast, self._late(suspects)))
        self._incoming = released.intersection(decisions.due)
        for unit in self._incoming:
            self._incoming_since_ms.setdefault(unit, running_ms)
        written = [m.encode(m.Claim(self.incarnation, self.node, *claim)) for claim in decisions.claims]
        for unit, node in decisions.offers:
            version = self.ownership.version(unit)
            if self._released.get(unit) != version:
                self._released[unit] = version
                written.append(m.encode(m.Release(self.incarnation, self.node, unit, version, node)))
        return [*written, *map(m.encode, self.member.gone(now_ms))]
