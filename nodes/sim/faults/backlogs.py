"""Backlogs where a job allows idleness: input in which no partition is idle before its end, and nodes that are busy.

Two rules for this file: what is drawn here leaves the draws of all other cases as they were; the input is such that a
punctuation makes no record late, so that the answers are those of a job without an idle timeout.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.machine import events as e
from nodes.machine.config import JobRun, NodeConfig
from nodes.machine.effects import Effect
from nodes.machine.node import Node
from nodes.machine.ownership.ownership import Ownership
from nodes.sim.jobs import CASES

if TYPE_CHECKING:
    from nodes.sim.options import Options

SHARE = 0.1
"""Of the seeds for which no job is named."""
SHORTEST_MS, LONGEST_MS = 100, 5000
"""A turn of a node that is starved."""


def case_of(seed: int) -> str | None:
    """The job, where the seed is one of a backlog; else another one is drawn."""
    rng = random.Random(f"backlog {seed}")
    known = sorted(name for name, case in CASES.items() if case.backlog and case.since <= seed)
    return rng.choice(known) if rng.random() < SHARE else None


def with_backlog(options: Options, calm: bool) -> Options:
    """All input lies there before the start, or comes without a pause; nodes take long for it, or are starved.

    Of input that comes steadily the next record is there within 50 ms, which is 100 ms on the fastest clock of a node.
    """
    if not CASES[options.case].backlog:
        return options
    rng = random.Random(f"backlog {options.seed} {options.case}")
    steady = rng.random() < 0.3
    return replace(
        options,
        records=250 if steady else rng.choice([40, 120, 250, 400]),
        feed_ms=2500 if steady else 0,
        preloaded=0.0 if steady else 1.0,
        safety_ms=6000,
        isolation="",
        truncation="",
        idle_timeout_ms=rng.choice([120, 300] if steady else [10, 60, 300]),
        record_cost_ms=0.0 if calm else rng.choice([0.0, 0.5, 2.0, 20.0]),
        starved=0.0 if calm else rng.choice([0.0, 0.01, 0.05, 0.2]),
    )


class BusyNode(Node):
    """The real node; ``spend`` is called with the records of each step and moves its clock before the next one."""

    def __init__(self, config: NodeConfig, run: JobRun, history: Ownership, spend: Callable[[int], None]) -> None:
        self._spend = spend
        super().__init__(config, run, history)

    def step(self, event: e.Event, now_ms: int) -> list[Effect]:
        effects = super().step(event, now_ms)
        self._spend(_records(event.events if isinstance(event, e.EventBatch) else (event,)))
        return effects


def _records(events: Sequence[e.Event]) -> int:
    return sum(len(event.run) for event in events if isinstance(event, e.InputRead))


class Turns:
    """The duration of one node's turns, beyond the moment at which they happen. Nothing once the faults are over."""

    def __init__(self, options: Options, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self.spent_ms = 0.0

    def spend(self, records: int) -> None:
        """So many records were processed."""
        self.spent_ms += records * self._options.record_cost_ms

    def over(self) -> int:
        """A turn has ended; gives how long it has taken."""
        if self._options.starved and self._rng.random() < self._options.starved:
            self.spent_ms += self._rng.uniform(SHORTEST_MS, LONGEST_MS)
        spent_ms, self.spent_ms = int(self.spent_ms), 0.0
        return spent_ms
