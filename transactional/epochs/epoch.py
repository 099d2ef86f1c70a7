"""One epoch as far as its records are read: what the ledger knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from transactional.epochs.decision import Decision
from transactional.epochs.messages import Cut, ReadSetSnapshot, RoundBarrier
from transactional.execution.rerun import Postponed, Rerun


@dataclass(slots=True)
class Epoch:
    """One window."""

    number: int
    base: int | None = None  # where the counters of all sequencers begin, once it is known
    cuts: dict[int, Cut] = field(default_factory=dict)
    barriers: dict[int, dict[int, RoundBarrier]] = field(default_factory=dict)
    read_sets: dict[int, ReadSetSnapshot] = field(default_factory=dict)
    carried: dict[int, Postponed] = field(default_factory=dict)
    last_round: int | None = None
    decision: Decision | None = None
    outcome: Rerun | None = None

    def barrier(self, round_: int, partition: int) -> RoundBarrier | None:
        """None: it has not run this round, as far as is read."""
        return self.barriers.get(round_, {}).get(partition)
