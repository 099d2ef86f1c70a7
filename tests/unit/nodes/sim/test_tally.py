"""Progress over many seeds, kept in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.errors import RunFailed
from nodes.sim.run import Verdict
from nodes.sim.tally import Failure, SeedPlan, Tally, resumed


def verdict(seed: int, problem: str | None = None) -> Verdict:
    return Verdict(seed, {}, problem, f"digest {seed}", 1000, 10, {"died": 2}, [], f"holon sim --seed {seed}")


def test_an_interrupted_run_goes_on_with_the_next_seed_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    tally = resumed(file, SeedPlan(100, 5, 10))
    tally.add(verdict(100))
    tally.add(verdict(101, "broken"))
    tally.save(file)
    again = resumed(file, SeedPlan(7777, 5, 10))  # a new base seed each time
    assert list(again.left) == [102, 103, 104]
    assert again.failed == [Failure(101, "broken", "holon sim --seed 101")]
    assert again.counts == {"died": 4}


def test_progress_of_other_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    Tally(SeedPlan(100, 5, 10)).save(file)
    with pytest.raises(RunFailed, match="other runs"):
        resumed(file, SeedPlan(100, 5, 6))


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_text("[1, 2]")
    with pytest.raises(RunFailed, match="remove it"):
        resumed(file, SeedPlan(100, 5, 10))
