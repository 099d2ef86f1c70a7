"""Claims without handing over: which units of a job this node works on, where overlap costs work and nothing else.

Units are counted from 0, and what one is does not matter here. Whoever is to have a unit claims it when it is free,
released or its owner silent; the owner of one that should move releases it and works on until another has claimed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.assignment import heirs, target
from nodes.machine.code_rule import CodeRule
from nodes.machine.control_state import ControlState
from nodes.machine.detector import Detector
from nodes.machine.orphans import Orphans
from nodes.machine.ownership import Ownership
from nodes.machine.returning import Returning

FORGET_AFTER_MS = 60_000
"""So long a member without units may be silent before another one says that it has left."""


LOOKS = 3
"""Silences that make a suspect, after which a node that is none is taken to be at work."""


class Claiming:
    """The part of a node that has to do with others. ``owned`` is what it works on, ascending.

    ``groups``: sizes of ranges of units, each shared out evenly by itself; () takes all units as one. ``rule`` says
    with which code it may join, and stay.
    """

    def __init__(
        self,
        node: str,
        number: int,
        incarnation: int,
        units: int,
        *,
        suspect_after_ms: int,
        groups: Sequence[int] = (),
        forget_after_ms: int = FORGET_AFTER_MS,
        rule: CodeRule | None = None,
    ) -> None:
        assert not groups or sum(groups) == units, f"groups {groups} of {units} units"
        self._rule = rule
        self._asked_ms: int | None = None  # since then it is looked for nodes with other code
        self._groups = tuple(groups) or (units,)
        self._forget_after_ms = forget_after_ms
        self.node = node
        self.number = number
        self.incarnation = incarnation
        self.ownership = Ownership(units, owners_save=True)
        self.detector = Detector(suspect_after_ms)
        self._returning = Returning(node, suspect_after_ms)
        self._orphans = Orphans(suspect_after_ms)
        self.bad_messages = 0
        self.steals = 0
        self.joined = False
        self.leaving = False
        self._greeted = False
        self._began = False  # whether this life has said Hello
        self._commands = 0
        self._owned: set[int] = set()
        self._claimed: dict[int, int] = {}
        self._released: dict[int, int] = {}
        self._forgotten: set[str] = set()
        self._heirs: tuple[object, frozenset[int]] = None, frozenset()

    @property
    def owned(self) -> list[int]:
        return sorted(self._owned)

    def needs_end(self, now_ms: int) -> bool:
        """Whether the control topic has to be known to its end now: joining, a stall, the work of a silent node."""
        if not self.joined or self.detector.stalled(now_ms):
            return True
        others = [node for node in self.ownership.members if node != self.node]
        return any(self.ownership.owned_by(node) for node in self.detector.suspects(others, now_ms))

    def heard(self, values: list[bytes], now_ms: int) -> None:
        """Records of the heartbeat topic."""
        for value in values:
            message = self._decoded(value)
            node = getattr(message, "node", None)
            if node is not None:
                self.detector.heard(node, now_ms)

    def control(self, values: list[bytes], at_end: bool, now_ms: int) -> list[bytes]:
        """Records of the control topic, in order; gives what to append to it.

        Raises ``BadMessage`` at one of a newer version: who passed it over would disagree with others about all since;
        ``JobMismatch`` where this node's code is not one that the job goes on with.
        """
        self.detector.stalled(now_ms)
        for value in values:
            message = self._decoded(value, newer_matters=True)
            if message is not None and message.incarnation == self.incarnation:  # it has no other
                for fact in self.ownership.apply(message):
                    self._learn(fact, now_ms)
        if not at_end or self.leaving or self.ownership.incarnation != self.incarnation:
            return []
        if self._rule is not None and self.joined:
            self._rule.check_member(self.ownership)
        if not self._greeted:
            if self._rule is not None and not self._rule.holds(self.ownership):
                return [] if self._rule.awaits else self._declared(self._rule, now_ms)
            self._greeted = self._began = True
            return [m.encode(m.Hello(self.incarnation, self.node, self.number, self.ownership.life(self.node) + 1))]
        self.detector.caught_up(now_ms)
        return self._share_out(now_ms) if self.joined else []

    def _declared(self, rule: CodeRule, now_ms: int) -> list[bytes]:
        """What makes this node's code one of the job's, once it is known whether others are at work.

        Who is silent for as long as a suspicion takes is dead; that some are heard of at first means nothing, since
        what they wrote before they died is still on the log.
        """
        rule.check_state(self.ownership)
        self.detector.caught_up(now_ms)
        others = sorted(node for node in self.ownership.members if node != self.node)
        living = sorted(set(others).difference(self.detector.suspects(others, now_ms)))
        if self._asked_ms is None:
            self._asked_ms = self.detector.running_ms
        if living and self.detector.running_ms - self._asked_ms < LOOKS * self.detector.suspect_after_ms:
            return []
        self._asked_ms = None
        name, argument = rule.declare(self.ownership, living)
        self._commands += 1
        return [m.encode(m.Command(self.incarnation, name, argument, f"{self.node} {self._commands}"))]

    def restore(self, state: ControlState) -> None:
        """Go on from what others have folded: records that this node has not read are gone.

        It keeps the units that it owns by that, and says Hello (again) unless it is a member.
        """
        before = set(self.ownership.members)
        self.ownership.restore(state)
        if self._rule is not None:
            self._rule.accepted(None)
        for node in sorted(before.difference(self.ownership.members)):
            self.detector.forget(node)
            self._forgotten.discard(node)
        self.joined = self._greeted = self.node in self.ownership.members
        self._owned = set(self.ownership.owned_by(self.node))

    def standing_by(self, copies: int, now_ms: int) -> frozenset[int]:
        """Units of others that this node is a standby of, if there are so many copies of each."""
        if copies < 2 or not self.joined or self.leaving:
            return frozenset()
        live, owners = self._live(now_ms), self.ownership.owners()
        asked = copies, tuple(live), tuple(sorted(owners.items())), self.detector.pace.unproven()
        if self._heirs[0] != asked:
            self._heirs = asked, frozenset(self._inherited(live, owners, copies))
        return self._heirs[1]

    def _inherited(self, live: Sequence[str], owners: Mapping[int, str | None], copies: int) -> Iterator[int]:
        """Units that would be this node's without their owner: as ``shares`` gives them out."""
        first = 0
        for size in self._groups:
            own = {unit - first: node for unit, node in owners.items() if first <= unit < first + size}
            found = heirs(size, live, own, copies, self.detector.pace.unproven())
            yield from (first + unit for unit, nodes in found.items() if self.node in nodes)
            first += size

    def leave(self) -> list[bytes]:
        """All that this node has is free."""
        self.leaving = True
        return [self._goodbye(self.node)]

    def _goodbye(self, node: str) -> bytes:
        return m.encode(m.Goodbye(self.incarnation, node, self.ownership.life(node)))

    def _decoded(self, value: bytes, *, newer_matters: bool = False) -> m.ControlMessage | None:
        try:
            return m.decode_control(value)
        except m.BadMessage as error:
            self.bad_messages += 1
            if newer_matters and error.reason is m.BadReason.NEWER_VERSION:
                raise
            return None

    def _learn(self, fact: f.Fact, now_ms: int) -> None:
        match fact:
            case f.NodeJoined(node) if node == self.node:
                self.joined = True
                self._greeted |= self._began  # another Hello under this name is not answered by one
            case f.NodeLeft(node):
                self.detector.forget(node)
                self._forgotten.discard(node)
                if node == self.node and self.joined:  # others took it for dead: it joins again
                    self.joined = self._greeted = False
                    self._owned.clear()
            case f.CodeAccepted(version) if self._rule is not None:
                self._rule.accepted(version)
            case f.PartitionClaimed(unit, node, _, previous):
                self._returning.claimed(fact, now_ms)
                self.detector.claimed(fact, now_ms)
                if node == self.node:
                    self._owned.add(unit)
                    self.steals += previous not in (None, node)
                else:
                    self._owned.discard(unit)

    def _live(self, now_ms: int) -> list[str]:
        others = [node for node in self.ownership.members if node != self.node]
        suspects = set(self.detector.suspects(others, now_ms))
        return sorted(node for node in self.ownership.members if node not in suspects)

    def _share_out(self, now_ms: int) -> list[bytes]:
        live, owners = self._live(now_ms), self.ownership.owners()
        keeping = self.detector.pace.unproven()
        wanted = shares(self._groups, live, owners, keeping)
        running_ms = self.detector.running_ms
        self._orphans.look((unit for unit, owner in owners.items() if owner not in live), running_ms)
        written: list[bytes] = []
        for unit, node in wanted.items():
            owner, version = owners[unit], self.ownership.version(unit)
            # Its owner may find that this node keeps pace again before it does so itself.
            offered = owner is None and self.node in keeping and self.ownership.released_to(unit) == self.node
            mine = node == self.node and owner not in live and self._may_take(owner, now_ms)
            if offered or mine or self._orphans.may_take(unit, running_ms):
                if self._claimed.get(unit) != version + 1:
                    self._claimed[unit] = version + 1
                    written.append(m.encode(m.Claim(self.incarnation, self.node, unit, version + 1)))
            elif owner == self.node and node != self.node and self._released.get(unit) != version:
                self._released[unit] = version
                written.append(m.encode(m.Release(self.incarnation, self.node, unit, version, node)))
        if live[:1] == [self.node]:  # one node is enough for it
            written += self._forget(live, now_ms)
        return written

    def _may_take(self, owner: str | None, now_ms: int) -> bool:
        if owner is None:
            return True
        returning = self._returning.may_take(owner, self.detector.silence_ms(owner, now_ms), now_ms)
        return returning and self.detector.may_take(self.node, owner, now_ms)

    def _forget(self, live: Sequence[str], now_ms: int) -> list[bytes]:
        """Members without units that have been silent for very long are gone; who is not joins anew.

        Members would pile up otherwise, one for each node that was ever killed.
        """
        silent = {node: self.detector.silence_ms(node, now_ms) or 0 for node in self.ownership.members}
        gone = [
            node
            for node in sorted(silent.keys() - set(live) - self._forgotten)
            if silent[node] >= self._forget_after_ms and not self.ownership.owned_by(node)
        ]
        self._forgotten.update(gone)
        return [self._goodbye(node) for node in gone]


def shares(
    groups: Sequence[int], live: Sequence[str], owners: Mapping[int, str | None], keeping: Collection[str] = ()
) -> dict[int, str]:
    """Unit -> the node that should have it; each range of units, of these sizes, is shared out evenly by itself.

    Nodes that are ``keeping`` get nothing more.
    """
    found: dict[int, str] = {}
    first = 0
    for size in groups:
        own = {unit - first: node for unit, node in owners.items() if first <= unit < first + size}
        found.update({first + unit: node for unit, node in target(size, live, own, keeping).items()})
        first += size
    return found
