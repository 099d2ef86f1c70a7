"""docs/faults.md names tests that there are, and says truly which of them wait for the night."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "faults.md"
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(test_[a-z0-9_]+)`")


def test_every_test_of_the_fault_table_exists() -> None:
    named = NAMED.findall(PAGE.read_text())
    assert len(named) > 50
    for path, test in named:
        assert f"def {test}(" in (TESTS / path).read_text(), f"docs/faults.md names {path}::{test}, which is not there"


def test_what_waits_for_the_night_is_said_to() -> None:
    for row in PAGE.read_text().splitlines():
        for path, test in NAMED.findall(row):
            marked = f"@pytest.mark.nightly\ndef {test}(" in (TESTS / path).read_text()
            assert marked == row.endswith("| nightly |"), f"docs/faults.md is wrong on when {test} runs"


def test_every_row_of_faults_that_are_shown_is_there() -> None:
    rows = {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert rows == {*range(1, 31), 33, 35, 36}
