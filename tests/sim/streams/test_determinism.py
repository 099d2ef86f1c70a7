"""The seed decides everything: not the hash seed, not the process, not what ran before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from nodes.compiled import loading
from nodes.compiled.loading import NAMES, Compiled
from nodes.sim.run import simulate

SEEDS = (3, 7, 12, 291)
COMPILED = (2**57 + 21, 2**57 + 33, 2**57 + 41)
"""They read records, and write results, by loops."""
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


def counted(called: Counter[str], name: str, loop: Callable[..., int]) -> Callable[..., int]:
    """The same, counted by its name."""

    def call(*values: int) -> int:
        called[name] += 1
        return loop(*values)

    return call


def test_the_same_seed_gives_the_same_trace_under_two_hash_seeds() -> None:
    one, other = digests_in_another_process("1"), digests_in_another_process("4242")
    assert len(one) == len(SEEDS)
    assert one == other


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_trace_twice_in_one_process(seed: int) -> None:
    assert simulate(seed).digest == simulate(seed).digest


@pytest.mark.parametrize("seed", COMPILED)
def test_a_seed_has_the_same_trace_with_and_without_compiled_loops(
    seed: int, loops: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = Counter[str]()
    for name in NAMES:
        monkeypatch.setattr(loops, name, counted(called, name, getattr(loops, name)))
    monkeypatch.setattr(loading, "LOADED", [loops])
    with_loops = simulate(seed)
    assert with_loops.ok and called["read_structs"] > 0
    monkeypatch.setattr(loading, "LOADED", [])
    monkeypatch.setattr(loading, "ensure", lambda build: False)
    called.clear()
    assert simulate(seed).digest == with_loops.digest and not called


def test_another_seed_gives_another_trace() -> None:
    assert len({simulate(seed).digest for seed in SEEDS}) == len(SEEDS)
