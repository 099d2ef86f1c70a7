"""The suite's own rules, tried on small suites in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

ONE_SKIPS = "import pytest\ndef test_passes(): pass\n@pytest.mark.skip(reason='no broker')\ndef test_skips(): pass\n"
MODULE_SKIPS = "import pytest\npytest.skip('no browser', allow_module_level=True)\ndef test_unseen(): pass\n"
ONE_XFAILS = "import pytest\n@pytest.mark.xfail(reason='known', strict=True)\ndef test_fails(): assert False\n"
SHOWS_PROFILE = "from hypothesis import settings\ndef test_shows(): print('examples', settings().max_examples)\n"
ONE_FOR_THE_NIGHT = "import pytest\ndef test_short(): pass\n@pytest.mark.nightly\ndef test_long(): pass\n"
STARTS = """
import contextlib, multiprocessing, os, subprocess, threading
import pytest
@pytest.fixture(scope='module')
def started():
    subprocess.run(['true'])
def test_thread(): threading.Thread(target=print).start()
def test_process(): subprocess.run(['true'])
def test_multiprocessing(): multiprocessing.Process(target=print).start()
def test_fork(): os.fork() or os._exit(0)
def test_fixture(started): pass
def test_passes(): pass
"""
SWALLOWS = """
import contextlib, threading
def test_swallows():
    with contextlib.suppress(AssertionError):
        threading.Thread(target=print).start()
def test_last(): pass
"""
IN_EACH_FOLDER = {f"{folder}/test_{folder}.py": "def test_it(): pass\n" for folder in ("unit", "laws", "sim")}


def run_suite(folder: Path, tests: dict[str, str], *args: str, **environment: str) -> tuple[int, str]:
    """Run pytest with this suite's conftest and options on the given files; gives its exit code and output."""
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for name, text in {"conftest.py": (ROOT / "tests/conftest.py").read_text(), **tests}.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    env = {key: value for key, value in os.environ.items() if key not in ("CI", "HYPOTHESIS_PROFILE")}
    env = {key: value for key, value in env.items() if not key.startswith("PYTEST_")} | environment
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_skips_are_counted_as_skips_at_home(tmp_path: Path) -> None:
    tests = {"unit/test_a.py": ONE_SKIPS, "unit/test_b.py": MODULE_SKIPS, "unit/test_c.py": SHOWS_PROFILE}
    code, output = run_suite(tmp_path, tests, "-s")
    assert code == 0 and "2 passed, 2 skipped" in output, output
    assert re.search(r"examples 50\b", output), output


@pytest.mark.long
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_skip_is_a_failure_in_ci(tmp_path: Path, workers: list[str]) -> None:
    tests = {"unit/test_a.py": ONE_SKIPS, "unit/test_b.py": ONE_XFAILS, "unit/test_c.py": SHOWS_PROFILE}
    code, output = run_suite(tmp_path, tests, "-rP", *workers, CI="true")
    assert code == 1 and "2 passed, 1 xfailed, 1 error" in output, output
    assert "no broker" in output
    assert re.search(r"examples 30\b", output), output


def test_module_that_skips_itself_is_a_failure_in_ci(tmp_path: Path) -> None:
    code, output = run_suite(tmp_path, {"unit/test_a.py": MODULE_SKIPS}, CI="true")
    assert code in (1, 2) and "1 error" in output and "no browser" in output, output


def test_folder_gives_the_marker_and_the_environment_the_profile(tmp_path: Path) -> None:
    tests = {**IN_EACH_FOLDER, "laws/test_c.py": SHOWS_PROFILE}
    code, output = run_suite(tmp_path, tests, "-v", "-s", "-m", "laws or sim", HYPOTHESIS_PROFILE="nightly")
    assert code == 0 and "3 passed, 1 deselected" in output, output
    assert "test_unit.py" not in output
    assert re.search(r"examples 2000\b", output), output


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ([], "1 passed, 1 deselected"),
        (["-m", "not laws"], "1 passed, 1 deselected"),
        (["--nightly"], "2 passed"),
        (["-m", "nightly"], "1 passed, 1 deselected"),
    ],
)
def test_nightly_tests_run_only_when_asked_for(tmp_path: Path, options: list[str], outcome: str) -> None:
    code, output = run_suite(tmp_path, {"faults/test_a.py": ONE_FOR_THE_NIGHT}, "-v", *options)
    assert code == 0 and outcome in output, output
    assert ("test_long" in output) is ("nightly" in " ".join(options)), output


def test_unit_test_that_starts_a_thread_or_a_process_fails_and_others_may(tmp_path: Path) -> None:
    rules = (ROOT / "tests/unit/conftest.py").read_text()
    tests = {"unit/conftest.py": rules, "unit/test_a.py": STARTS, "unit/test_b.py": SWALLOWS, "laws/test_c.py": STARTS}
    code, output = run_suite(tmp_path, tests, PYTHONPATH=str(ROOT))
    assert code == 1 and "4 failed, 9 passed, 3 errors" in output, output
    for name in ("thread", "process", "multiprocessing", "fork"):
        assert f"FAILED tests/unit/test_a.py::test_{name} " in output, output
    assert "ERROR tests/unit/test_a.py::test_fixture " in output, output
    assert "ERROR tests/unit/test_b.py::test_last " in output and "test_b.py::test_swallows (call)" in output, output


@pytest.mark.long
def test_long_tests_come_first_where_that_is_requested(tmp_path: Path) -> None:
    tests = {
        "sim/test_a.py": "import pytest\ndef test_quick(): pass\n@pytest.mark.long\ndef test_last(): pass\n",
        "sim/test_b.py": "import pytest\n@pytest.mark.long\ndef test_later(): pass\n",
    }
    for options, order in ([], ["quick", "last", "later"]), (["--long-first"], ["last", "later", "quick"]):
        code, output = run_suite(tmp_path, tests, "-v", *options)
        assert code == 0 and re.findall(r"test_(\w+) PASSED", output) == order, output


@pytest.mark.long
def test_three_runs_that_draw_thirds_of_the_long_tests_run_all_of_them(tmp_path: Path) -> None:
    mark = "import pytest\npytestmark = pytest.mark.long\n"
    tests = {
        "sim/test_long.py": mark + "".join(f"def test_long_{number}(): pass\n" for number in range(5)),
        "sim/test_others.py": "def test_quick(): pass\n",
    }
    ran = []
    for seed in ("7", "8", "9"):
        code, output = run_suite(tmp_path, tests, "-v", "--drawn", SIM_BASE_SEED=seed)
        assert code == 0 and "test_quick PASSED" in output, output
        ran.append(set(re.findall(r"test_long_\d", output)))
    assert sorted(len(names) for names in ran) == [1, 2, 2] and len(set.union(*ran)) == 5
    code, output = run_suite(tmp_path, tests)
    assert code == 0 and "6 passed" in output, output
