"""The seed decides everything in simulated jobs: not the hash seed, the process, the clock, or what ran before."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from nodes.sim.case import TWELFTH_SEED
from tests.integration.processes import ROOT
from tests.sim.counts import drawn
from tests.sim.digests import digest_of

HASH_SEEDS = "1", "4242"
DRAWN = {
    "fleets": drawn(6, 120),
    "programs": drawn(24, 400),
    "standbys": drawn(8, 100),
    "trimmed": drawn(4, 60),
    "external-calls": drawn(8, 100),
    "hanging": drawn(4, 30),
    "crashing": drawn(1, 6),
    "control": drawn(1, 6),
    "starved": drawn(1, 3),
    "streams": drawn(3, 120),
}
"""By kind, so many seeds in a row: of programs the third has versions, the fourth is strained, the eleventh is poor."""
DIFFERED = {
    "fleets": (5, 77, TWELFTH_SEED + 3),
    "streams": (17592186044451,),
}
"""Seeds whose runs were not alike, and some of the draws that came one after the other."""
ALWAYS = "fleets:77", "programs:12", "standbys:3", "streams:7"


def runs() -> list[str]:
    """As words of the command."""
    base = int(os.environ["SIM_BASE_SEED"])
    return [f"{kind}:{seed}" for kind, count in DRAWN.items() for seed in range(base, base + count)]


def lines(words: list[str], hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.digests", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def in_two_processes(words: list[str]) -> list[list[str]]:
    with ThreadPoolExecutor(2) as both:
        return list(both.map(lambda hash_seed: lines(words, hash_seed), HASH_SEEDS))


@pytest.mark.long
def test_the_same_seeds_give_the_same_logs_and_counts_in_two_processes() -> None:
    words = runs()
    one, other = in_two_processes(words)
    assert len(one) == len(words) and len(set(one)) == len(set(words))
    assert one == other


@pytest.mark.long
def test_seeds_that_once_differed_are_the_same_in_two_processes() -> None:
    one, other = in_two_processes([f"{kind}:{seed}" for kind, seeds in DIFFERED.items() for seed in seeds])
    assert one == other


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_fleets_of_two_releases_are_the_same_too() -> None:
    base = int(os.environ["SIM_BASE_SEED"])
    one, other = in_two_processes([f"two-releases:{seed}" for seed in (TWELFTH_SEED + 6, *range(base, base + 8))])
    assert one == other and one


@pytest.mark.parametrize("run", ALWAYS)
def test_the_same_seed_gives_the_same_twice_in_one_process(run: str) -> None:
    kind, seed = run.split(":")
    assert digest_of(kind, int(seed)) == digest_of(kind, int(seed))


def test_another_seed_gives_another_log() -> None:
    assert len({digest_of("programs", seed) for seed in range(8)}) == 8
