"""What continuous integration runs: every folder of tests, and mutants that still fit the code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy import parts
from deploy.mutants.model import DoesNotApply, Mutant
from deploy.mutants.planted import MUTANTS
from deploy.parts import Outcome, Part
from tests.tidy.source import ROOT


def test_every_folder_of_tests_is_run_by_some_part() -> None:
    assert parts.forgotten(parts.parts()) == []
    assert parts.forgotten([Part("quick", (), "unit")]) != []


def test_table_tells_what_failed_and_what_was_not_run() -> None:
    known = [Part("lint", ()), Part("quick", ()), Part("sim", ())]
    lines = parts.table(known, [Outcome(known[0], 0, 12.4), Outcome(known[1], 1, 60.0)]).splitlines()
    assert lines[0].split() == ["lint", "12", "s", "passed"]
    assert "FAILED (exit code 1)" in lines[1] and lines[2].split() == ["sim", "not", "run"]
    assert lines[3].split() == ["in", "all", "72", "s"]


def test_part_that_fails_is_seen() -> None:
    assert parts.run(Part("bad", (sys.executable, "-c", "raise SystemExit(3)")), nightly=False).exit_code == 3


def test_part_with_a_test_that_fails_is_run_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('run '); raise SystemExit(1)"
    outcome = parts.run(Part("tests", (sys.executable, "-c", code), "integration"), nightly=False)
    assert outcome.exit_code == 1 and runs.read_text() == "run "


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_still_applies_and_names_what_kills_it(mutant: Mutant) -> None:
    """Whoever changes the code brings the mutant along: ``old`` must stand once in its file."""
    assert mutant.applied() != (ROOT / mutant.file).read_text()
    assert mutant.tests or mutant.case is not None
    assert [test for test in mutant.tests if not (ROOT / test.split("::")[0]).exists()] == []


def test_mutant_that_no_longer_applies_says_so() -> None:
    gone = Mutant("gone", "holon/task.py", "no such text", "")
    with pytest.raises(DoesNotApply, match="'gone': its text stands 0 times"):
        gone.applied()
    with pytest.raises(DoesNotApply, match="there is no"):
        Mutant("lost", "holon/nowhere.py", "a", "b").applied()
