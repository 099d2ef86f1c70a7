"""Running the tests that are aimed at a mutant, in a copy of the tree that has the bug in it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from deploy.mutants.model import Mutant
from nodes.compiled import loading

COPIED = ("wcrdt", "holon", "transactional", "nodes", "nexmark", "examples", "docs", "tests")
FIRST_SEEDS = 10
# No plugin is found by itself, no assertion is rewritten: the first line that fails is all that is needed.
PYTEST = (
    "-x -q --no-header --tb=no --assert=plain -p no:cacheprovider -p pytest_timeout -p _hypothesis_pytestplugin "
    "--hypothesis-seed=0"
).split()
LIMIT_S = 1200.0
"""A bug may also hang what it breaks: whoever runs into this has found it."""
TEST_LIMIT_S, SPARE_S, SLOWER = 240.0, 30.0, 10.0
"""A test may take so long; with a bug at most so much more than the longest one of its file without any."""


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """``by``: what found the bug, None if nothing did."""

    mutant: Mutant
    by: str | None
    took_s: float


def copy_tree(source: Path, target: Path, copy: Callable[..., object] = shutil.copy2) -> None:
    """The rooms and the tests, compiled modules included where there are any."""
    for name in COPIED:
        shutil.copytree(source / name, target / name, copy_function=copy)
    copy(source / "pyproject.toml", target / "pyproject.toml")


def compile_tree(folder: Path) -> None:
    """So that no mutant spends its time on that."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", *COPIED], cwd=folder, check=True)


def kill(mutant: Mutant, base: Path, folder: Path, seeds: int, base_seed: int, test_limit_s: float) -> MutantVerdict:
    """Plant it in a copy of ``base`` under ``folder``, and run what is aimed at it, the tests first."""
    began_s = time.monotonic()
    copy_tree(base, folder, os.link)
    try:
        target, text = folder / mutant.file, mutant.applied(folder)
        target.unlink()  # a link: the others keep theirs
        target.write_text(text)
        Path(importlib.util.cache_from_source(str(target))).unlink(missing_ok=True)
        if mutant.file.removesuffix(".py").replace("/", ".") in loading.SOURCES:
            _run(folder, ["-c", "from nodes.compiled import loading; loading.ensure()"])  # no test waits for that
        by = run_tests(folder, mutant.tests, test_limit_s) if mutant.tests else None
        if by is None and mutant.case is not None:
            by = simulate(folder, mutant.case, seeds, base_seed)
        return MutantVerdict(mutant, by, time.monotonic() - began_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_tests(
    folder: Path, tests: tuple[str, ...], test_limit_s: float = TEST_LIMIT_S, report: Path | None = None
) -> str | None:
    """The first test that fails; None if all pass. Raises ``RuntimeError`` where they cannot be run at all.

    ``report``: a file for what ``longest`` reads.
    """
    options = [f"--timeout={test_limit_s:.0f}", *([] if report is None else [f"--junitxml={report}"])]
    ran = _run(folder, ["-m", "pytest", *PYTEST, *options, *tests])
    if ran is None:
        return f"no end within {LIMIT_S:.0f} s"
    if ran.returncode == 0:
        return None
    for line in ran.stdout.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1][:150]
    if ran.returncode == 1:  # the time limit of one test ends pytest without a summary
        return "a test was ended"
    raise RuntimeError(f"pytest {' '.join(tests)} ended with {ran.returncode}:\n{ran.stdout[-800:]}{ran.stderr[-800:]}")


def longest(report: Path) -> dict[str, float]:
    """By module (``tests.unit.test_a``), the seconds that the longest of its tests took."""
    found: dict[str, float] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "")
        found[module] = max(found.get(module, 0.0), float(case.get("time", "0")))
    return found


def limit_of(mutant: Mutant, known: Mapping[str, float]) -> float:
    """The seconds that one of the mutant's tests may take, by those of tests without any bug."""
    modules = [test.partition("::")[0].removesuffix(".py").replace("/", ".") for test in mutant.tests]
    if not all(module in known for module in modules):
        return TEST_LIMIT_S
    return min(TEST_LIMIT_S, SPARE_S + SLOWER * max((known[module] for module in modules), default=0.0))


def simulate(folder: Path, case: str, seeds: int, base_seed: int) -> str | None:
    """The first seeds that fail, chunk by chunk, so that most mutants cost a few only; None if all hold."""
    done, chunk = 0, FIRST_SEEDS
    while done < seeds:
        chunk = min(chunk, seeds - done)
        options = ["--seeds", str(chunk), "--base-seed", str(base_seed + done), "--json", "--processes", "1"]
        ran = _run(folder, ["-m", "nodes.cli", "sim", *options, *(["--case", case] if case else [])])
        done += chunk
        if ran is None:
            return f"a simulation without an end within {LIMIT_S:.0f} s"
        if ran.returncode == 1 and ran.stdout:
            failed = json.loads(ran.stdout).get("failed", [])
            return f"seed {failed[0]['seed']} of case {case or 'any'}: {failed[0]['problem'].splitlines()[0][:90]}"
        if ran.returncode != 0:
            raise RuntimeError(f"the simulation of case {case!r} did not run: {ran.stderr[-800:]}")
        chunk *= 3
    return None


def _run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str] | None:
    """None if it did not end in time."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HYPOTHESIS_PROFILE": "mutants"}
    try:
        return subprocess.run(
            [sys.executable, "-B", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return None
