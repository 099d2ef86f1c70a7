"""Everything that continuous integration runs, part by part, the quick ones first, with the times of each at the end.

    python deploy/parts.py [--nightly] [--seeds N] [--keep-going] [--only PART]... [--list]

Without ``--keep-going`` the first part that fails ends it. Exit code 1 if a part fails. No test gets a second attempt.
By day the simulation begins with the integration tests, which leave a third of two cores idle. It comes last, and
fills what the mutants leave as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

ROOT = Path(__file__).resolve().parent.parent
NIGHT_MUTANT_SEEDS = 3_000
MUTANT_SHARE = 48
"""One of so many mutants is planted in a run; the night plants all of them."""
WORKERS = {"integration": 3}
"""More than there are cores where tests wait for processes and brokers most of the time; two elsewhere."""
LONG_FIRST = ("sim",)
"""Folders whose tests share nothing: each worker gets the next one, the long ones first, so that all end together."""
FORKED = ("unit",)
"""Folders whose modules cost more to import than to run: they are imported once."""
BESIDE = {"quick": "lint", "sim": "tests"}
"""A part that needs the processor alone, and the one that it begins with. It has the lowest priority until its turn."""
BESIDE_TIMEOUT_S = 1800
"""For a test of it, which gets less of the processor than it would alone."""
ALONE = {"formats": "unit/holon/formats"}
"""Folders inside of a part that can be run alone, by name."""


@dataclass(frozen=True, slots=True)
class SuitePart:
    """One command; ``folder``: the folder of tests that it runs; ``beside``: the part that it begins with."""

    name: str
    command: tuple[str, ...]
    folder: str | None = None
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    part: SuitePart
    exit_code: int
    took_s: float
    cpu_s: float
    """Of all its processes that were waited for."""


def parts(nightly: bool = False, seeds: int = 100_000) -> list[SuitePart]:
    """All parts in their order; ``seeds``: how many the night simulates."""
    found = [SuitePart("lint", ("make", "--no-print-directory", "-k", "-j2", "lint"))]
    share = ("--seeds", str(NIGHT_MUTANT_SEEDS)) if nightly else ("--share", str(MUTANT_SHARE))
    names = {"quick": "unit", "laws": "laws", "tests": "integration", "attack": "attack", "sim": "sim"}
    for name, folder in names.items():
        if name == "sim":
            found.append(SuitePart("mutants", (sys.executable, "-m", "deploy.mutants", *share)))
        if list((ROOT / "tests" / folder).rglob("test_*.py")):
            beside = None if nightly else BESIDE.get(name)
            command = _pytest(folder, nightly, WORKERS.get(folder, 2), beside is not None)
            found.append(SuitePart(name, command, folder, beside))
    if nightly:
        night = ("sim", "--seeds", str(seeds), "--nodes", "10", "--resume", str(ROOT / ".cache" / "night-seeds.json"))
        found.append(SuitePart("seeds", (sys.executable, "-m", "nodes.cli", *night)))
    return found


def _pytest(folder: str, nightly: bool, workers: int, beside: bool = False) -> tuple[str, ...]:
    limit = ("--timeout", str(BESIDE_TIMEOUT_S)) if beside else ()
    options = ("--nightly", "--timeout", "3600") if nightly else ("--drawn", *limit)
    # A file's tests share brokers and stay together, until one of the workers has nothing left.
    dist = ("-n", str(workers), "--dist", "worksteal")
    if folder in LONG_FIRST:
        dist = ("-n", str(workers), "--dist", "load", "--maxschedchunk", "1", "--long-first")
    elif folder.startswith(FORKED):
        dist = ("-p", "tests.forks", "--forks", str(workers))
    shared = (*dist, "--durations", "15", "--durations-min", "5")
    return (sys.executable, "-m", "pytest", "-q", *shared, *options, f"tests/{folder}")


def forgotten(known: list[SuitePart]) -> list[str]:
    """Folders with tests that no part runs."""
    run = {part.folder for part in known}
    tests = ROOT / "tests"
    with_tests = {path.relative_to(tests).parts[0] for path in tests.rglob("test_*.py")}
    return sorted(with_tests - run)


class RunningPart:
    """A part that was started; with ``output`` its output is kept there until its turn."""

    def __init__(self, part: SuitePart, nightly: bool, output: IO[bytes] | None = None) -> None:
        environment = {**os.environ, **({"HYPOTHESIS_PROFILE": "nightly"} if nightly else {})}
        command = part.command if output is None else ("nice", "-n", "19", *part.command)
        self._part, self._output, self._began_s = part, output, time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        )

    def wait(self) -> Outcome:
        """Its outcome, once it has ended; what it wrote meanwhile is passed on first."""
        _, status, usage = os.wait4(self._process.pid, 0)
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        took_s = time.monotonic() - self._began_s
        if self._output is not None:
            self._output.seek(0)
            sys.stdout.write(self._output.read().decode(errors="replace"))
            sys.stdout.flush()
        return Outcome(self._part, code, took_s, usage.ru_utime + usage.ru_stime)

    def stop(self) -> None:
        """End it with its children. They are of this process's group, so that a signal to that ends them as well."""
        if self._process.poll() is None:  # so its id is no other process's yet
            whole = psutil.Process(self._process.pid)
            for each in [*whole.children(recursive=True), whole]:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            self._process.wait()


def run(part: SuitePart, nightly: bool) -> Outcome:
    """Run it, its output passing through."""
    print(f"== {part.name}", flush=True)
    return RunningPart(part, nightly).wait()


def run_all(chosen: list[SuitePart], nightly: bool, keep_going: bool) -> list[Outcome]:
    """The outcomes in order, up to the first failure unless ``keep_going``."""
    outcomes: list[Outcome] = []
    running: dict[str, RunningPart] = {}
    with ExitStack() as ends:
        for part in chosen:
            for other in chosen:
                if other.beside == part.name:
                    output = ends.enter_context(tempfile.TemporaryFile())
                    running[other.name] = RunningPart(other, nightly, output)
                    ends.callback(running[other.name].stop)
            if part.name in running:
                print(f"== {part.name}, begun beside {part.beside}", flush=True)
                outcomes.append(running[part.name].wait())
            else:
                outcomes.append(run(part, nightly))
            if outcomes[-1].exit_code and not keep_going:
                break
    return outcomes


def table(known: list[SuitePart], outcomes: list[Outcome], took_s: float) -> str:
    """A line for each part, and one for all, which took ``took_s``."""
    by_part = {outcome.part: outcome for outcome in outcomes}
    lines = []
    for part in known:
        outcome = by_part.get(part)
        if outcome is None:
            lines.append(f"{part.name:<8}     not run")
        else:
            verdict = "passed" if outcome.exit_code == 0 else f"FAILED (exit code {outcome.exit_code})"
            lines.append(f"{part.name:<8} {outcome.took_s:6.0f} s  {outcome.cpu_s:6.0f} s of CPU  {verdict}")
    cpu_s = sum(outcome.cpu_s for outcome in outcomes)
    return "\n".join([*lines, f"{'in all':<8} {took_s:6.0f} s  {cpu_s:6.0f} s of CPU"])


def main() -> int:
    """Run the parts; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nightly", action="store_true", help="nightly tests, many seeds, more examples")
    parser.add_argument("--seeds", type=int, default=100_000, help="seeds that the night simulates")
    parser.add_argument("--keep-going", action="store_true", help="run the other parts though one failed")
    parser.add_argument("--only", action="append", default=[], help="this part (may be repeated)")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    known = parts(arguments.nightly, arguments.seeds)
    missing = forgotten(known)
    if missing:
        print(f"no part runs the tests in {', '.join(missing)}; add one to {Path(__file__).name}")
        return 1
    alone = [SuitePart(name, _pytest(folder, arguments.nightly, 2)) for name, folder in ALONE.items()]
    names = [part.name for part in [*known, *alone]]
    if set(arguments.only) - set(names):
        parser.error(f"parts are {', '.join(names)}")
    chosen = [part for part in [*known, *alone] if part.name in arguments.only] if arguments.only else known
    if arguments.list:
        print("\n".join(f"{part.name:<8} {' '.join(part.command)}" for part in chosen))
        return 0
    began_s = time.monotonic()
    outcomes = run_all(chosen, arguments.nightly, arguments.keep_going)
    print(table(chosen, outcomes, time.monotonic() - began_s), flush=True)
    return int(any(outcome.exit_code for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
