"""The events of a simulated fleet of transactional nodes, added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Met:
    """The events of a run, so that a test can demand that it was not trivial."""

    answered: int = 0
    saved: int = 0
    promotions: int = 0
    handovers: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    stalls: int = 0
    starved: int = 0
    backlogs: int = 0
    restored: int = 0
    ledger_waits: int = 0
    upgrades: int = 0
    layouts: int = 0
    splits: int = 0
    online: int = 0
    alone: int = 0
    moved: int = 0
    portions: int = 0
    resumed: int = 0
    full: int = 0
    full_moves: int = 0
    full_waits: int = 0
    full_killed: int = 0
    full_left: int = 0
    spills: int = 0
    full_spills: int = 0
    spilled_layouts: int = 0
    outside_layouts: int = 0
    portions_ended: int = 0
    upgraded_moves: int = 0
    moved_calls: int = 0
    moved_postponed: int = 0
    outside: int = 0
    again: int = 0
    late: int = 0
    at_steps: Counter[tuple[str, str]] = field(default_factory=Counter)
    callers: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)

    def shown(self) -> dict[str, Any]:
        """As values of JSON."""
        steps = {f"{fault} when {step}": count for (step, fault), count in sorted(self.at_steps.items())}
        return vars(self) | {"at_steps": steps, "callers": dict(self.callers), "functions": dict(self.functions)}

    def add(self, other: Met) -> None:
        self.at_steps.update(other.at_steps)
        self.callers.update(other.callers)
        self.functions.update(other.functions)
        for name in [each for each in vars(self) if each not in ("kills", "at_steps", "callers", "functions")]:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for why, count in other.kills.items():
            self.kills[why] = self.kills.get(why, 0) + count
