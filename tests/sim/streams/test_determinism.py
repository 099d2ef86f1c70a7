"""The seed decides everything: not the hash seed, not the process, not what ran before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nodes.sim.run import simulate

SEEDS = (3, 7, 12, 291)
SCRIPT = "import sys; from nodes.sim.run import simulate; print(*(simulate(int(s)).digest for s in sys.argv[1:]))"


def digests_in_another_process(hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, SEEDS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_same_seed_gives_the_same_trace_under_two_hash_seeds() -> None:
    one, other = digests_in_another_process("1"), digests_in_another_process("4242")
    assert len(one) == len(SEEDS)
    assert one == other


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_trace_twice_in_one_process(seed: int) -> None:
    assert simulate(seed).digest == simulate(seed).digest


def test_another_seed_gives_another_trace() -> None:
    assert len({simulate(seed).digest for seed in SEEDS}) == len(SEEDS)
