"""Tests that run in forks are told of as if they ran in one process, also when a fork dies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.house.test_pytest import ROOT, run_suite

MIXED = """
import pytest
@pytest.fixture(scope='module')
def opened():
    print('opened')
    yield 1
    with open('closed', 'a') as closed: closed.write('closed ')
def test_passes(opened): assert opened
def test_fails(opened): print('written by {name}'); assert opened == 2
@pytest.mark.skip(reason='no broker')
def test_skips(): pass
def test_warns(): import warnings; warnings.warn('odd {name}')
@pytest.fixture
def broken(): raise ValueError('of {name}')
def test_errs(broken): pass
"""
DIES = "import os\ndef test_first(): pass\ndef test_dies(): os._exit(7)\ndef test_behind(): pass\n"
FAILS = "import time\ndef test_fails(): assert False\n"
SLOW = "".join(f"def test_{number}(): pass\n" for number in range(2_000))


def in_forks(folder: Path, tests: dict[str, str], *args: str) -> tuple[int, str]:
    return run_suite(folder, tests, "-p", "tests.forks", "--forks", "2", *args, PYTHONPATH=str(ROOT))


def told(output: str) -> list[str]:
    """The summary's lines, without the run's duration."""
    lines = re.findall(r"^(?:FAILED|ERROR|SKIPPED) .*|^.* passed.* in .*s.*$", output, re.MULTILINE)
    return sorted(re.sub(r" in [\d.]+s.*", "", line).strip("= ") for line in lines)


@pytest.mark.long
def test_the_summary_is_that_of_one_process(tmp_path: Path) -> None:
    tests = {f"integration/test_{name}.py": MIXED.replace("{name}", name) for name in "abcde"}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    code, output = run_suite(tmp_path / "one", tests)
    forked_code, forked = in_forks(tmp_path / "two", tests)
    assert (forked_code, told(forked)) == (code, told(output)) and code == 1
    assert "5 failed, 10 passed, 5 skipped, 5 warnings, 5 errors" in forked, forked
    for name in "abcde":
        assert forked.count(f"written by {name}\n") == 1 and f"UserWarning: odd {name}" in forked, forked
    assert [(tmp_path / run / "closed").read_text().count("closed") for run in ("one", "two")] == [5, 5]


def test_a_fork_that_dies_fails_the_tests_that_it_held_and_the_others_run(tmp_path: Path) -> None:
    others = {f"integration/test_{name}.py": "def test_it(): pass\n" for name in "bcdef"}
    code, output = in_forks(tmp_path, {"integration/test_a.py": DIES, **others})
    assert code == 1 and "2 failed, 6 passed" in output, output
    assert "FAILED tests/integration/test_a.py::test_dies" in output and "exit code 7" in output, output
    assert "FAILED tests/integration/test_a.py::test_behind" in output, output


def test_where_no_fork_is_left_the_tests_that_did_not_run_have_failed(tmp_path: Path) -> None:
    code, output = in_forks(tmp_path, {f"integration/test_{name}.py": DIES for name in "abcd"})
    assert code == 1 and "10 failed, 2 passed" in output and "no process is left" in output, output


def test_the_first_failure_ends_the_run_where_that_is_wished(tmp_path: Path) -> None:
    code, output = in_forks(tmp_path, {"integration/test_a.py": FAILS, "integration/test_b.py": SLOW}, "-x")
    assert code == 1 and "stopping after 1 failures" in output, output
    assert "1 failed" in output and "2000 passed" not in output, output


def test_a_module_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    code, output = in_forks(tmp_path, {"integration/test_a.py": "import nowhere\n", "integration/test_b.py": FAILS})
    assert code == 2 and "1 error" in output, output
