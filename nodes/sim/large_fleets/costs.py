"""Costs of a node's steps: counts of a turn's work, and microseconds for each, fitted to turns that were timed.

Two rules for this file: a cost is never below zero; nothing here measures (``deploy/bench/calibrate.py`` does).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

ROUNDS = 2000
SMALL_US = 50.0
"""Turns are compared by how far their costs are off in proportion; so much is added, or the smallest would decide."""
SHARE = 0.98
"""Turns that cost more than so many others are left out of a fit: the machine was elsewhere."""


class TurnCounts(msgspec.Struct):
    """The work of one or more turns, or (as ``Costs``) microseconds for one of each.

    ``slots``: turns times partitions of the job; ``full_polls``: turns that polled every topic, times partitions;
    ``runners``: turns times partitions of the node; ``batches`` of input of one event, and what each of the ``events``
    more costs; ``deltas_in`` read, ``folds``: those times partitions of the job; ``deltas_out`` written;
    ``control`` records and ``heartbeats`` read; ``sends``: all else that was written; ``windows`` completed, and
    ``joins``: windows times partitions.
    """

    turns: float = 0.0
    slots: float = 0.0
    full_polls: float = 0.0
    runners: float = 0.0
    batches: float = 0.0
    events: float = 0.0
    deltas_in: float = 0.0
    folds: float = 0.0
    deltas_out: float = 0.0
    control: float = 0.0
    heartbeats: float = 0.0
    sends: float = 0.0
    windows: float = 0.0
    joins: float = 0.0
    checkpoints: float = 0.0

    def add(self, other: TurnCounts, times: float = 1.0) -> None:
        """Count that too."""
        for name in KINDS:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))

    def row(self) -> list[float]:
        """In the order of ``KINDS``."""
        return [getattr(self, name) for name in KINDS]


KINDS = TurnCounts.__struct_fields__


class Costs(TurnCounts):
    """Microseconds for one of each kind."""

    def us(self, done: TurnCounts) -> float:
        """The sum."""
        return sum(cost * count for cost, count in zip(self.row(), done.row(), strict=True))

    def shares(self, done: TurnCounts) -> dict[str, float]:
        """Microseconds by kind, the largest first; without kinds that cost nothing."""
        found = {name: getattr(self, name) * getattr(done, name) for name in KINDS}
        return dict(sorted(((k, v) for k, v in found.items() if v > 0), key=lambda pair: -pair[1]))


def fit(turns: Sequence[tuple[TurnCounts, float]], known: TurnCounts | None = None) -> Costs:
    """Costs, none below zero, whose sums come as near as can be (least squares, in proportion) to the measured turns.

    In the end they are raised or lowered alike, so that their sum is the cost of all turns together.
    ``known``: costs that were measured otherwise and stay as they are. Raises ``ValueError`` without turns.
    """
    if not turns:
        raise ValueError("no turns to fit costs to")
    counts = np.array([done.row() for done, _ in turns])
    spent = np.array([us for _, us in turns])
    fixed = np.array((known or TurnCounts()).row())
    usual = spent <= np.quantile(spent / _size(counts), SHARE) * _size(counts)
    all_counts, counts, weights = counts, counts[usual], 1 / (SMALL_US + spent[usual])
    free = (counts.any(axis=0)) & (fixed == 0)
    found = fixed.copy()
    left = (spent[usual] - counts @ fixed) * weights
    found[free] = _not_negative(counts[:, free] * weights[:, None], left)
    modelled, measured = (all_counts @ np.where(free, found, 0)).sum(), (spent - all_counts @ fixed).sum()
    found[free] *= max(measured, 0.0) / modelled if modelled > 0 else 1.0
    return Costs(*found.tolist())


def _size(counts: np.ndarray) -> np.ndarray:
    """How much a turn did, roughly: turns are compared with those of their size."""
    products = [KINDS.index(name) for name in ("slots", "full_polls", "folds", "joins")]
    return 10.0 + np.delete(counts, products, axis=1).sum(axis=1)


def _not_negative(counts: np.ndarray, spent: np.ndarray) -> np.ndarray:
    """Least squares with no unknown below zero, one unknown after the other until none moves."""
    scale = np.sqrt((counts**2).sum(axis=0))
    columns = counts / scale
    gram, right = columns.T @ columns, columns.T @ spent
    found = np.zeros(len(right))
    for _ in range(ROUNDS):
        before = found.copy()
        for at in range(len(right)):
            found[at] = max(0.0, right[at] - gram[at] @ found + found[at] * gram[at, at])
        if np.allclose(found, before, rtol=1e-9, atol=1e-9):
            break
    return found / scale
