"""Stress: stores that take long to save, kills of new owners, and memory pressure, with copies and without."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from nodes.sim.case import FIRST_SEED
from nodes.sim.drawing import draw
from nodes.sim.many import explain
from nodes.sim.options import Faults
from nodes.sim.run import run, simulate
from tests.shares import share_of

WANTED = ("killed-while-saving", "new-owner-killed", "pressed")
MOST = 60


@pytest.mark.long
def test_new_seeds_meet_every_kind_of_stress() -> None:
    happened = Counter[str]()
    for seed in range(FIRST_SEED, FIRST_SEED + MOST):
        verdict = simulate(seed, max_nodes=10, replicas=2)
        assert verdict.ok, explain(verdict)
        happened.update(verdict.counts)
        if all(happened[kind] >= 2 for kind in WANTED):
            return
    pytest.fail(f"{MOST} seeds met {dict(happened)}")


@pytest.mark.long
@pytest.mark.parametrize("case", share_of(["count", "running", "own-windows", "two-stages"], 2, __name__))
@pytest.mark.parametrize("pressure", [0.0, 0.002])
def test_owners_that_die_one_after_the_other_while_their_first_checkpoint_is_saved(case: str, pressure: float) -> None:
    """Every one that takes a partition over is killed, mostly before what it saves is in the store."""
    kills = 0
    for seed in count(FIRST_SEED):
        drawn = draw(seed, 6, case, replicas=2)
        faults = Faults(kill_one=0.004, kill_promoted=1.0, restart=0.2, pressure=pressure)
        options = replace(
            drawn,
            nodes=3,
            max_nodes=4,
            records=250,
            feed_ms=4000,
            safety_ms=5000,
            tick_ms=5,
            checkpoint_interval_ms=60,
            save_ms=300,
            isolation="",
            truncation="",
            faults=faults,
        )
        verdict = run(options)
        assert verdict.ok, explain(verdict)
        kills += verdict.counts.get("new-owner-killed", 0)
        if kills >= 10:
            return
