"""Fleets with faults, seed by seed: whatever happens, the answers are right, and they come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.sim.jobs import CASES
from nodes.sim.many import explain, fresh_base_seed
from nodes.sim.run import simulate

CHUNKS = 24
SEEDS = int(os.environ.get("SIM_SEEDS", "360"))


def first_seed() -> int:
    """Another one for each chunk of each run, unless SIM_BASE_SEED gives one."""
    given = os.environ.get("SIM_BASE_SEED")
    return fresh_base_seed() if given is None else int(given)


def regressions() -> list[tuple[int, str]]:
    lines = (Path(__file__).parent / "seeds.txt").read_text().splitlines()
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return [(int(seed), case) for seed, case in pairs]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_new_seeds_hold(chunk: int) -> None:
    first = first_seed() + chunk * (SEEDS // CHUNKS)
    print(f"seeds {first} to {first + SEEDS // CHUNKS - 1}")
    for seed in range(first, first + SEEDS // CHUNKS):
        verdict = simulate(seed)
        assert verdict.ok, explain(verdict)


@pytest.mark.parametrize(("seed", "case"), regressions())
def test_seeds_that_once_failed_hold(seed: int, case: str) -> None:
    verdict = simulate(seed, case=case)
    assert verdict.ok, explain(verdict)


@pytest.mark.parametrize("case", sorted(CASES))
def test_every_job_is_right_without_faults(case: str) -> None:
    for seed in range(3):
        verdict = simulate(seed, case=case, calm=True)
        assert verdict.ok, explain(verdict)
        assert "died" not in verdict.counts
