"""Parts of continuous integration that fail."""

from __future__ import annotations

import sys
from pathlib import Path

from deploy import parts
from deploy.parts import SuitePart


def test_part_that_fails_is_seen() -> None:
    assert parts.run(SuitePart("bad", (sys.executable, "-c", "raise SystemExit(3)")), nightly=False).exit_code == 3


def test_part_with_a_test_that_fails_is_run_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('run '); raise SystemExit(1)"
    outcome = parts.run(SuitePart("tests", (sys.executable, "-c", code), "integration"), nightly=False)
    assert outcome.exit_code == 1 and runs.read_text() == "run "
