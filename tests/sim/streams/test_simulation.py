"""Fleets with faults, seed by seed: whatever happens, the answers are right, and they come."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from nodes.sim.case import SEVENTH_SEED
from nodes.sim.drawing import draw
from nodes.sim.jobs import CASES
from nodes.sim.many import explain
from nodes.sim.options import TRUNCATIONS
from nodes.sim.run import simulate
from tests.shares import share_of
from tests.sim.counts import drawn

CHUNKS = 24
SEEDS = int(os.environ.get("SIM_SEEDS") or drawn(72, 1008))
FLEET = 10
"""Nodes at most."""


Regression = tuple[int, str, int, int | None]


def regressions() -> list[Regression]:
    """Seed, job, largest fleet and copies (None: drawn) of what once failed."""
    lines = (Path(__file__).parents[1] / "seeds.txt").read_text().splitlines()
    found = [line.split() for line in lines if line and not line.startswith("#")]
    return [(int(seed), case, int(nodes), int(copies[0]) if copies else None) for seed, case, nodes, *copies in found]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_new_seeds_hold(chunk: int) -> None:
    first = int(os.environ["SIM_BASE_SEED"]) + chunk * (SEEDS // CHUNKS)
    print(f"seeds {first} to {first + SEEDS // CHUNKS - 1}")
    for seed in range(first, first + SEEDS // CHUNKS):
        verdict = simulate(seed, max_nodes=FLEET)
        assert verdict.ok, explain(verdict)


@pytest.mark.parametrize("once", share_of(regressions(), 3, __name__), ids=lambda once: f"{once[1]}-{once[0]}")
def test_seeds_that_once_failed_hold(once: Regression) -> None:
    seed, case, nodes, copies = once
    verdict = simulate(seed, case=case, max_nodes=nodes, replicas=copies)
    assert verdict.ok, explain(verdict)


NEWER = {name for name, case in CASES.items() if case.since >= SEVENTH_SEED}
"""New seeds draw these often: so a run without faults draws half of them, and has one seed of each."""


@pytest.mark.parametrize("case", [*sorted(set(CASES) - NEWER), *share_of(sorted(NEWER), 2, __name__)])
def test_every_job_is_right_without_faults(case: str) -> None:
    for seed in range(1 if case in NEWER else drawn(1, 3)):
        verdict = simulate(seed, case=case, calm=True)
        assert verdict.ok, explain(verdict)
        assert "died" not in verdict.counts


@pytest.mark.long
@pytest.mark.parametrize("kind", TRUNCATIONS)
@pytest.mark.parametrize("alive", [True, False])
def test_a_topic_that_loses_its_end_costs_nothing_or_ends_the_job_by_name(kind: str, alive: bool) -> None:
    cut, tried = 0, 0
    for seed in count():
        options = draw(seed, case="running")
        if (options.truncation, options.truncation_alive) != (kind, alive):
            continue
        verdict, tried = simulate(seed, case="running"), tried + 1
        assert verdict.ok, explain(verdict)
        cut += verdict.counts.get(f"truncated-{kind}", 0)
        if cut == 2:
            return
        assert tried < 10, "nothing was cut"
