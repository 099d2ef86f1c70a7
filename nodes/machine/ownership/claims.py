"""Claims without handing over: which units of a job this node works on, where overlap costs work and nothing else.

Units are counted from 0, and what one is does not matter here. The node that is to have a unit claims it when it is
free or its owner silent. The owner of one that should move releases it, and works on until another has claimed it: that
one claims it once it is abreast.
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


HELD_TIMES = 16
"""So many suspicions' times a node may take to be abreast with a unit; then it claims what it has not loaded yet."""
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
        self.leaving = False
        self._patience_ms = HELD_TIMES * failure_timeout_ms
        self._commands = 0
        self._owned: set[int] = set()
        self._released: dict[int, int] = {}
        self._incoming: dict[int, int] = {}  # units that another one works on for this node, and since when

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
        if not at_end or self.leaving or self.ownership.incarnation != self.incarnation:
            return []
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
        self._incoming.clear()

    def leave(self) -> list[bytes]:
        """All that this node has is free."""
        self.leaving = True
        return [m.encode(self.member.goodbye(self.node))]

    def _learn(self, fact: f.Fact, now_ms: int) -> None:
        match fact:
            case f.NodeLeft(node) if node == self.node:
                self._owned.clear()
                self._incoming.clear()
            case f.CodeAccepted(version) if self._rule is not None:
                self._rule.accepted(version)
            case f.PartitionClaimed(unit, node):
                self.sharing.claimed(fact, now_ms)
                self._incoming.pop(unit, None)
                if node == self.node:
                    self._owned.add(unit)
                else:
                    self._owned.discard(unit)

    def _share_out(self, now_ms: int, abreast: Collection[int]) -> list[bytes]:
        running_ms, units = self.detector.running_ms, range(self.ownership.partitions)
        late = {unit for unit, since_ms in self._incoming.items() if running_ms - since_ms >= self._patience_ms}
        released = {unit for unit in units if self.ownership.released_to(unit) is not None} - self._owned
        decisions = self.sharing.decide(self.member.suspects(now_ms), now_ms, released.difference(abreast, late))
        due = released.intersection(decisions.due)
        self._incoming = {unit: self._incoming.get(unit, running_ms) for unit in sorted(due)}
        written = [m.encode(m.Claim(self.incarnation, self.node, *claim)) for claim in decisions.claims]
        for unit, node in decisions.offers:
            version = self.ownership.version(unit)
            if self._released.get(unit) != version:
                self._released[unit] = version
                written.append(m.encode(m.Release(self.incarnation, self.node, unit, version, node)))
        return [*written, *map(m.encode, self.member.gone(now_ms))]
