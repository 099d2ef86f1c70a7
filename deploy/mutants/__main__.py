"""python -m deploy.mutants: plant each known bug in a copy of the tree and demand that its tests find it.

``--share N`` draws one of N of the mutants by ``--seed``, which is new for each run otherwise. Every run
checks that all mutants apply. Exit code 1 if one survives or does not apply, or if the tests fail without any bug.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.mutants.killing import (
    MutantVerdict,
    compile_tree,
    copy_tree,
    kill,
    limit_of,
    longest,
    run_tests,
    simulate,
)
from deploy.mutants.model import ROOT, DoesNotApply, Mutant
from deploy.mutants.planted import MUTANTS
from nodes.sim.many import fresh_base_seed

PARALLEL = 2
BASELINE_SEEDS = 3


def main() -> int:
    """Run the chosen mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300, help="simulated seeds for each mutant that needs them")
    parser.add_argument("--base-seed", type=int, default=1)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--list", action="store_true", help="name them, and those that do not apply any more")
    parser.add_argument("--share", type=int, default=1, help="one of so many mutants, drawn by --seed")
    parser.add_argument("--seed", type=int, help="what draws the share; a new one unless given")
    arguments = parser.parse_args()
    if arguments.share < 1:
        parser.error("--share counts from 1")
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    chosen = drawn([mutant for mutant in MUTANTS if arguments.only in mutant.name], arguments.share, seed)
    tests_seed = os.environ.setdefault("SIM_BASE_SEED", str(fresh_base_seed()))  # of simulations among the tests
    again = f"SIM_BASE_SEED={tests_seed} python -m deploy.mutants"
    if arguments.share > 1:
        again += f" --share {arguments.share} --seed {seed}"
        print(f"{len(chosen)} of {len(MUTANTS)} mutants are drawn by seed {seed}", flush=True)
    stale = list(_stale(MUTANTS))
    if arguments.list or stale:
        print("\n".join([mutant.name for mutant in chosen if arguments.list] + stale))
        return int(bool(stale))
    with tempfile.TemporaryDirectory(prefix="holon-mutants-") as name:
        folder = Path(name)
        copy_tree(ROOT, folder / "base")
        compile_tree(folder / "base")
        report = folder / "without-any-bug.xml"
        problem = _baseline(folder / "base", chosen, arguments.base_seed, report)
        if problem is not None:
            print(f"without any bug, this fails: {problem}\nagain: {again}")
            return 1
        known = longest(report) if report.exists() else {}
        slow_first = sorted(chosen, key=lambda mutant: (mutant.case is None, -limit_of(mutant, known)))
        survivors = [verdict for verdict in _killed(slow_first, folder, arguments, known) if verdict.by is None]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    for verdict in survivors:
        print(f"SURVIVED: {verdict.mutant.name}; alone: python -m deploy.mutants --only {verdict.mutant.name!r}")
    if survivors:
        print(f"again: {again}")
    return int(bool(survivors))


def drawn(mutants: Sequence[Mutant], share: int, seed: int) -> list[Mutant]:
    """One of ``share`` of the mutants, at least one if there is any, in their order; equal for equal seeds."""
    numbers = random.Random(seed).sample(range(len(mutants)), -(-len(mutants) // share))
    return [mutants[number] for number in sorted(numbers)]


def _stale(chosen: Sequence[Mutant]) -> Iterator[str]:
    for mutant in chosen:
        try:
            mutant.applied()
        except DoesNotApply as error:
            yield str(error)


def _baseline(base: Path, chosen: list[Mutant], base_seed: int, report: Path) -> str | None:
    """The tests that fail in the copy without any bug: then a kill would prove nothing."""
    began_s = time.monotonic()
    tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    cases = dict.fromkeys(mutant.case for mutant in chosen if mutant.case is not None)
    with ThreadPoolExecutor(PARALLEL) as pool:
        found = [pool.submit(run_tests, base, tests, report=report)] if tests else []
        found += [pool.submit(simulate, base, case, BASELINE_SEEDS, base_seed) for case in cases]
        problem = next((one.result() for one in found if one.result() is not None), None)
    print(f"without any bug: {len(tests)} tests, {len(cases)} cases, {time.monotonic() - began_s:.0f} s", flush=True)
    return problem


def _killed(
    chosen: list[Mutant], folder: Path, arguments: argparse.Namespace, known: Mapping[str, float]
) -> Iterator[MutantVerdict]:
    base, simulated = folder / "base", (arguments.seeds, arguments.base_seed)
    with ThreadPoolExecutor(PARALLEL) as pool:
        running = [
            pool.submit(kill, mutant, base, folder / str(number), *simulated, limit_of(mutant, known))
            for number, mutant in enumerate(chosen)
        ]
        for one in running:
            verdict = one.result()
            outcome = "killed  " if verdict.by is not None else "SURVIVED"
            print(f"{outcome} {verdict.took_s:5.1f} s  {verdict.mutant.name}: {verdict.by or ''}", flush=True)
            yield verdict


if __name__ == "__main__":
    sys.exit(main())
