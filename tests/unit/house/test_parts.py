"""The parts that continuous integration runs: every folder of tests, and mutants that still fit the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import parts
from deploy.mutants.__main__ import drawn
from deploy.mutants.killing import limit_of, longest
from deploy.mutants.model import DoesNotApply, Mutant
from deploy.mutants.planted import MUTANTS
from deploy.parts import Outcome, SuitePart
from tests.tidy.source import ROOT


def test_every_folder_of_tests_is_run_by_some_part() -> None:
    assert parts.forgotten(parts.parts()) == []
    assert parts.forgotten([SuitePart("quick", (), "unit")]) != []


def test_table_tells_what_failed_and_what_was_not_run() -> None:
    known = [SuitePart("lint", ()), SuitePart("quick", ()), SuitePart("sim", ())]
    lines = parts.table(known, [Outcome(known[0], 0, 12.4, 20.2), Outcome(known[1], 1, 60.0, 90.4)], 72.4).splitlines()
    assert lines[0].split() == ["lint", "12", "s", "20", "s", "of", "CPU", "passed"]
    assert "FAILED (exit code 1)" in lines[1] and lines[2].split() == ["sim", "not", "run"]
    assert lines[3].split() == ["in", "all", "72", "s", "111", "s", "of", "CPU"]


def test_simulation_begins_with_the_integration_tests_by_day() -> None:
    by_day, by_night = ({part.name: part for part in parts.parts(nightly)} for nightly in (False, True))
    assert by_day["sim"].beside == "tests" and by_night["sim"].beside is None
    names = list(by_day)
    assert names.index("tests") < names.index("mutants") < names.index("sim"), "it fills what both leave"


def test_by_day_a_half_of_the_long_tests_is_drawn_and_the_night_runs_all() -> None:
    by_day, by_night = ({part.name: part.command for part in parts.parts(nightly)} for nightly in (False, True))
    for name in ("quick", "laws", "tests", "attack", "sim"):
        assert "--drawn" in by_day[name] and "--drawn" not in by_night[name]
        assert "--nightly" in by_night[name]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_still_applies_and_names_what_kills_it(mutant: Mutant) -> None:
    """A change of the code brings the mutant along: ``old`` must stand once in its file."""
    assert mutant.applied() != (ROOT / mutant.file).read_text()
    assert mutant.tests or mutant.case is not None
    assert [test for test in mutant.tests if not _stands(test)] == []


def _stands(test: str) -> bool:
    """Whether there is such a file and, where one is named, such a function in it."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.exists() and (not name or f"def {name.partition('[')[0]}(" in path.read_text())


def test_seed_draws_a_share_of_the_mutants_and_the_night_plants_all() -> None:
    quarter = drawn(MUTANTS, 4, seed=1)
    assert len(quarter) == -(-len(MUTANTS) // 4) == len(set(quarter))
    assert quarter == drawn(MUTANTS, 4, seed=1) != drawn(MUTANTS, 4, seed=2)
    assert drawn(MUTANTS, 1, seed=1) == list(MUTANTS)
    assert {mutant.name for seed in range(60) for mutant in drawn(MUTANTS, 4, seed)} == {m.name for m in MUTANTS}
    by_day, by_night = (
        next(part.command for part in parts.parts(nightly) if part.name == "mutants") for nightly in (False, True)
    )
    assert by_day[-2:] == ("--share", str(parts.MUTANT_SHARE)) and "--share" not in by_night


def test_mutant_that_lets_a_test_wait_is_found_soon_where_its_tests_are_quick(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = [("tests.unit.test_a", "0.5"), ("tests.unit.test_a", "2.0"), ("tests.unit.test_b", "70")]
    rows = "".join(f'<testcase classname="{module}" name="test_it" time="{took}"/>' for module, took in cases)
    report.write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")
    known = longest(report)
    assert known == {"tests.unit.test_a": 2.0, "tests.unit.test_b": 70.0}
    quick, slow, unknown = "tests/unit/test_a.py::test_it[1]", "tests/unit/test_b.py", "tests/unit/test_c.py"
    aimed = [(quick,), (quick, slow), (quick, unknown)]
    limits = [limit_of(Mutant("m", "f", "a", "b", tests=tests), known) for tests in aimed]
    assert limits == [50.0, 240.0, 240.0]


def test_mutant_that_no_longer_applies_says_so() -> None:
    gone = Mutant("gone", "holon/tracks/task.py", "no such text", "")
    with pytest.raises(DoesNotApply, match="'gone': its text is 0 times"):
        gone.applied()
    with pytest.raises(DoesNotApply, match="there is no"):
        Mutant("lost", "holon/nowhere.py", "a", "b").applied()
