"""Simulated fleets whose records name schemas of a registry that answers nodes differently.

The expected results follow from the input and the control topic: a node that acts by its own answer gives others.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.sim.case import EIGHTH_SEED, TENTH_SEED
from nodes.sim.drawing import draw
from nodes.sim.run import run
from tests.shares import share_of

RUNS = [("running", seed) for seed in (1, 2, 4)] + [("keyed", seed) for seed in (3, 4, 5)] + [("late", 0), ("late", 1)]
"""Each of them ended with wrong results while nodes acted by their own answers."""


@pytest.mark.parametrize("chosen", share_of(RUNS, 4, __name__), ids=str)
def test_all_nodes_act_by_the_verdicts_of_the_control_topic(chosen: tuple[str, int]) -> None:
    case, seed = chosen
    options = draw(seed, case=case)
    options = replace(options, registry=0.3, records=60, feed_ms=1500, truncation="", isolation="", code_changes=0.0)
    verdict = run(options)
    assert verdict.problem is None, f"{verdict.problem}\n{options.describe()}"
    assert verdict.counts["schema-lacking"] and verdict.counts["schemas-unknown"], verdict.counts


def test_some_new_seeds_draw_a_registry() -> None:
    drawn = [draw(seed).registry for seed in range(EIGHTH_SEED, EIGHTH_SEED + 300)]
    assert 5 < sum(share > 0 for share in drawn) < 40
    assert not any(draw(seed).registry for seed in range(EIGHTH_SEED - 50, EIGHTH_SEED))
    newest = [draw(seed) for seed in range(TENTH_SEED, TENTH_SEED + 200)]
    assert any(options.registry and options.code_changes for options in newest)
