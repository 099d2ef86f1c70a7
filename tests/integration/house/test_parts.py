"""Parts of continuous integration that fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy import parts
from deploy.parts import SuitePart


def test_part_that_fails_is_seen() -> None:
    assert parts.run(SuitePart("bad", (sys.executable, "-c", "raise SystemExit(3)")), nightly=False).exit_code == 3


def test_part_with_a_test_that_fails_is_run_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('run '); raise SystemExit(1)"
    outcome = parts.run(SuitePart("tests", (sys.executable, "-c", code), "integration"), nightly=False)
    assert outcome.exit_code == 1 and runs.read_text() == "run "


def test_part_beside_another_begins_with_it_and_its_output_comes_at_its_turn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    met = tmp_path / "met"
    waits = f"import time, pathlib; p = pathlib.Path({str(met)!r})\nwhile not p.exists(): time.sleep(0.01)"
    first = SuitePart("first", (sys.executable, "-c", waits))
    last = SuitePart("last", (sys.executable, "-c", f"open({str(met)!r}, 'w'); print('here')"), beside="first")
    outcomes = parts.run_all([first, last], nightly=False, keep_going=False)
    assert [(outcome.part.name, outcome.exit_code) for outcome in outcomes] == [("first", 0), ("last", 0)]
    out = capfd.readouterr().out
    assert out.index("== first") < out.index("== last, begun beside first") < out.index("here")


def test_part_beside_one_that_fails_is_stopped(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    waits = f"import time, pathlib; p = pathlib.Path({str(pid)!r})\nwhile not (p.exists() and p.read_text()): "
    first = SuitePart("first", (sys.executable, "-c", f"{waits}time.sleep(0.01)\nexit(1)"))
    stays = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    last = SuitePart("last", (sys.executable, "-c", stays), beside="first")
    outcomes = parts.run_all([first, last], nightly=False, keep_going=False)
    assert [outcome.part.name for outcome in outcomes] == ["first"]
    assert not Path(f"/proc/{pid.read_text()}").exists()
