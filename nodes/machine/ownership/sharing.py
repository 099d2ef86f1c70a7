"""Which units a node claims and which it offers: the same decisions for every kind of job.

Two rules for this file. A unit moves only to balance or because its owner is gone. The kind of job decides the cost of
an offer, and when the unit is released. Units are counted from 0, and what one is does not matter here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nodes.machine import facts as f
from nodes.machine.membership.failure_detector import Detector
from nodes.machine.membership.suspicion_backoff import SuspicionBackoff
from nodes.machine.ownership.assignment import grown, shares
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.ownership.unowned_units import UnownedUnits


@dataclass(frozen=True, slots=True)
class Decisions:
    """``claims``: unit and version. ``offers``: own units, and the node that should have each."""

    claims: tuple[tuple[int, int], ...]
    offers: tuple[tuple[int, str], ...]
    again: bool
    """Whether time alone may change the decisions: an owner is silent, but not for long enough, or an offer waits for
    its node's heartbeat."""
    due: tuple[int, ...] = ()
    """Units that should be this node's and are not, by what it knows: just claimed, claimed before, or barred."""


class Sharing:
    """One node's decisions about units, from the fold of the control topic and from heartbeats.

    ``groups``: sizes of ranges of units, each shared out evenly by itself; () takes all units as one.
    """

    def __init__(self, node: str, ownership: Ownership, detector: Detector, groups: Sequence[int] = ()) -> None:
        self.node = node
        self.ownership = ownership
        self.detector = detector
        self._groups = tuple(groups)
        self._suspicion_backoff = SuspicionBackoff(node, detector.failure_timeout_ms)
        self._unowned = UnownedUnits(detector.failure_timeout_ms)
        self._claimed: dict[int, int] = {}
        self.steals = 0

    def claimed(self, fact: f.PartitionClaimed, now_ms: int) -> None:
        """A claim has won."""
        self.steals += fact.node == self.node and fact.previous not in (None, self.node)
        self._suspicion_backoff.claimed(fact, now_ms)
        self.detector.claimed(fact, now_ms)

    def are_due(self) -> bool:
        """Whether a unit has had no owner for so long that any node may take it."""
        return self._unowned.are_due(self.detector.running_ms)

    def decide(self, suspects: Collection[str], now_ms: int, barred: Collection[int] = ()) -> Decisions:
        """Decisions while these members are suspected; units that are ``barred`` are not claimed.

        A node that is leaving hands its units over, and is given none. Each claim is decided once for each version. A
        unit is offered to a node with a heartbeat alone: a member may have died before this observer began, or in its
        stall, and is no suspect yet.
        """
        ownership = self.ownership
        alive = {node for node in ownership.members if node not in suspects}
        owners, keeping, running_ms = ownership.owners(), self.detector.pace.unproven(), self.detector.running_ms
        self._unowned.update((unit for unit, owner in owners.items() if owner not in alive), running_ms)
        waiting = {node for node in suspects if not self._may_take(node, now_ms)}
        wanted = self._wanted(alive, owners, keeping)
        inherited = self._wanted(alive | waiting, owners, keeping) if waiting else wanted
        claims: list[tuple[int, int]] = []
        offers: list[tuple[int, str]] = []
        due: list[int] = []
        without_heartbeat = False
        for unit, node in wanted.items():
            owner, version = owners[unit], ownership.version(unit) + 1
            if self._is_claimed(unit, owner, wanted, inherited, alive, waiting, keeping):
                due.append(unit)
                if self._claimed.get(unit) != version and unit not in barred:
                    self._claimed[unit] = version
                    claims.append((unit, version))
            elif owner == self.node and node != owner:
                if self.detector.has_heartbeat(node, now_ms):
                    offers.append((unit, node))
                else:
                    without_heartbeat = True
        return Decisions(tuple(claims), tuple(offers), bool(waiting) or without_heartbeat, tuple(due))

    def _is_claimed(
        self,
        unit: int,
        owner: str | None,
        wanted: Mapping[int, str],
        inherited: Mapping[int, str],
        alive: Collection[str],
        waiting: Collection[str],
        keeping: Collection[str],
    ) -> bool:
        """Whether the unit should be this node's now.

        A suspect whose own units may not be taken yet counts as alive when another suspect's units are inherited. A
        unit that is taken from one silent node because a second one is silent too moves back to the second.
        """
        if owner is None:
            # The last owner may find that this node keeps pace again before it does so itself.
            offered = self.node in keeping and self.ownership.released_to(unit) == self.node
            mine = offered or wanted[unit] == self.node
        else:
            mine = owner not in alive and owner not in waiting and inherited[unit] == self.node
        return mine or (self._works() and self._unowned.may_take(unit, self.detector.running_ms))

    def _works(self) -> bool:
        return self.node in self.ownership.members and not self.ownership.is_stopping(self.node)

    def _wanted(
        self, nodes: Collection[str], owners: Mapping[int, str | None], keeping: Collection[str]
    ) -> dict[int, str]:
        live = sorted(node for node in nodes if not self.ownership.is_stopping(node))
        return shares(grown(self._groups, self.ownership.partitions), live, owners, keeping)

    def _may_take(self, owner: str, now_ms: int) -> bool:
        backoff = self._suspicion_backoff.may_take(owner, self.detector.silence_ms(owner, now_ms), now_ms)
        return backoff and self.detector.may_take(self.node, owner, now_ms)
