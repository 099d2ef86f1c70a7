"""What continuous integration runs: every folder of tests, and mutants that still fit the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from deploy import parts
from deploy.mutants.model import DoesNotApply, Mutant
from deploy.mutants.planted import MUTANTS
from deploy.parts import Outcome, Part
from tests.tidy.source import ROOT

HERE = "tests/unit/test_house_parts.py"


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


def failing(path: Path, *tests: str) -> tuple[str, ...]:
    """A command that ends as pytest does where these tests have failed."""
    text = json.dumps(dict.fromkeys(tests, True))
    return (
        sys.executable,
        "-c",
        f"import pathlib; pathlib.Path({str(path)!r}).write_text({text!r}); raise SystemExit(1)",
    )


@pytest.mark.parametrize(
    ("folder", "tests", "exit_code", "again"),
    [
        ("integration", [f"{HERE}::test_table_tells_what_failed_and_what_was_not_run"], 0, 1),
        ("integration", [f"{HERE}::test_that_is_not_there"], 4, 1),
        ("integration", [f"{HERE}::test_{number}" for number in range(4)], 1, 0),
        ("integration", [], 1, 0),
        ("laws", [f"{HERE}::test_table_tells_what_failed_and_what_was_not_run"], 1, 0),
    ],
    ids=["passes then", "fails again", "too many", "none is known", "another part"],
)
def test_few_integration_tests_that_fail_get_a_second_attempt_which_the_table_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, tests: list[str], exit_code: int, again: int
) -> None:
    monkeypatch.setattr(parts, "LAST_FAILED", tmp_path / "lastfailed")
    part = Part("tests", failing(tmp_path / "lastfailed", *tests), folder)
    outcome = parts.run(part, nightly=False)
    assert outcome.exit_code == exit_code and len(outcome.second_attempts) == again
    assert all(test in parts.table([part], [outcome]) for test in outcome.second_attempts)


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
