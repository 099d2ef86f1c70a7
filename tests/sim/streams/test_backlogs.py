"""Backlogs under an idle timeout: nodes that are busy or starved lose no record to a punctuation."""

from __future__ import annotations

from collections import Counter

import pytest

from nodes.sim.case import SEVENTH_SEED, TWELFTH_SEED
from nodes.sim.faults.backlogs import case_of
from nodes.sim.jobs import CASES
from nodes.sim.many import explain
from nodes.sim.run import simulate
from tests.shares import share_of
from tests.sim.counts import drawn

DRAWN = {name for name, case in CASES.items() if case.backlog}
BACKLOGS = sorted(name for name in DRAWN if CASES[name].since < SEVENTH_SEED)
"""Later ones are drawn by new seeds alone."""
SEEDS = range(1, drawn(6, 16))
"""Of these every third fails where a node takes its own silence for that of a partition."""


@pytest.mark.long
@pytest.mark.parametrize("case", share_of(BACKLOGS, 3, __name__))
@pytest.mark.parametrize("replicas", [1, 2])
def test_backlogs_on_busy_nodes_lose_nothing(case: str, replicas: int) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        verdict = simulate(seed, case=case, replicas=replicas)
        assert verdict.ok, explain(verdict)
        seen.update(verdict.counts)
    # Of fifteen seeds more than 100 turns, and more than 10 nodes.
    assert 15 * seen["busy"] > 100 * len(SEEDS) and 15 * seen["died"] > 10 * len(SEEDS), "turns take long, nodes die"


@pytest.mark.parametrize("first", [SEVENTH_SEED, TWELFTH_SEED])
def test_a_tenth_of_the_seeds_are_backlogs(first: int) -> None:
    cases = Counter(case_of(first + seed) for seed in range(2000))
    assert set(cases) == {None, *(name for name in DRAWN if CASES[name].since <= first)}
    assert 0.05 < 1 - cases[None] / 2000 < 0.2
