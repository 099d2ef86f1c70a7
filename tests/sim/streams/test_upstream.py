"""Simulated fleets that read another job's output, with repeats, zombies' copies and an older incarnation in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.sim.case import SEVENTH_SEED
from nodes.sim.drawing import draw
from nodes.sim.jobs import CASES
from nodes.sim.run import run
from tests.shares import share_of

SEEDS = (50_003, 50_006, 50_011)


NAMES = {n for n, case in CASES.items() if case.since < SEVENTH_SEED or not (case.idle or case.late_by)}
"""All jobs but variants of the newest, which new seeds draw often."""
SHARDED = {f"flow-{kind}-sharded" for kind in ("between", "counts", "early", "sessions")}
"""The same flows without sharded keys are among the others. A run draws a quarter of each."""


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [*share_of(sorted(NAMES - SHARDED), 4, __name__), *share_of(sorted(SHARDED), 4, __name__)]
)
def test_each_output_of_the_upstream_job_counts_once(case: str) -> None:
    for seed in SEEDS[: 1 if CASES[case].idle or CASES[case].since >= SEVENTH_SEED else 2]:
        options = replace(draw(seed, case=case), upstream=0.5, records=120, truncation="")
        verdict = run(options)
        assert verdict.problem is None, f"{verdict.problem}\n{options.describe()}"


def test_some_seeds_draw_an_upstream_job() -> None:
    drawn = [draw(seed).upstream for seed in range(200)]
    assert 5 < sum(rate > 0 for rate in drawn) < 60
