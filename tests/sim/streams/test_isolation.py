"""While a node is cut off, the windows of the others complete, and what it answers is right."""

from __future__ import annotations

from itertools import count, islice

import pytest

from nodes.machine.membership.failure_detector import Detector
from nodes.sim.drawing import draw
from nodes.sim.many import explain
from nodes.sim.options import ISOLATIONS
from nodes.sim.run import simulate


def seeds_of(kind: str, case: str, some: int) -> list[int]:
    return list(islice((seed for seed in count() if draw(seed, case=case).isolation == kind), some))


@pytest.mark.long
@pytest.mark.parametrize("kind", ISOLATIONS)
def test_the_windows_of_the_others_complete(kind: str) -> None:
    for seed in seeds_of(kind, "query1", 2):
        verdict = simulate(seed, case="query1")
        assert verdict.ok, explain(verdict)
        assert verdict.counts[f"cut-{kind}"] == 1


def test_a_fleet_that_suspects_nobody_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Detector, "suspects", lambda self, members, now_ms: [])
    problems = [simulate(seed, case="query1").problem for seed in seeds_of("whole", "query1", 3)]
    assert any("were on the log" in (problem or "") for problem in problems)
