"""Records that a node has written and the log has not acknowledged yet.

Two rules for this file: a ticket counts as acknowledged only when all before it are; what belongs to one claim never
speaks for another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from nodes.machine.effects import WriteBroadcast, WriteOutput
from nodes.machine.events import Acknowledged, OutputPartition


@dataclass(slots=True)
class _Claim:
    """The writes of one partition under one claim, in order."""

    tickets: deque[int] = field(default_factory=deque)
    arrived: set[int] = field(default_factory=set)
    ends: dict[OutputPartition, int] = field(default_factory=dict)
    through: int = 0


class InFlight:
    """Tracks every write until its acknowledgement; ``take`` gives the acknowledgements as events for the node."""

    def __init__(self) -> None:
        self._claims: dict[tuple[int, int], _Claim] = {}
        self._finished: dict[tuple[int, int], None] = {}

    def began(self, write: WriteBroadcast | WriteOutput) -> None:
        """The write was handed to the log."""
        self._claims.setdefault((write.partition, write.version), _Claim()).tickets.append(write.ticket)

    def done(self, write: WriteBroadcast | WriteOutput, ends: dict[OutputPartition, int]) -> None:
        """It is on the log; ``ends``: where the output partition ends now."""
        key = (write.partition, write.version)
        claim = self._claims[key]
        claim.arrived.add(write.ticket)
        claim.ends.update(ends)
        while claim.tickets and claim.tickets[0] in claim.arrived:
            claim.through = claim.tickets.popleft()
            claim.arrived.discard(claim.through)
            self._finished[key] = None

    def take(self) -> list[Acknowledged]:
        """The acknowledgements since the last call."""
        found = []
        for key in self._finished:
            claim = self._claims[key]
            found.append(Acknowledged(*key, claim.through, dict(claim.ends)))
            claim.ends.clear()
            if not claim.tickets:
                del self._claims[key]
        self._finished.clear()
        return found
