"""Nothing depends on PYTHONHASHSEED: one run in several processes with different seeds gives the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import hashlib, json, random, sys
from tests.laws.recut_jobs import Awaiting, PerBatch, PerRecord, Promising, job
from tests.laws.recut_runs import Run

digest = hashlib.blake2b(digest_size=16)
kinds = random.Random(5)
inputs = []
for partition in range(3):
    time, payloads = 0, []
    for _ in range(60):
        time += kinds.randrange(-6, 12)
        event = {"ts": time, "key": kinds.choice(["ant", "bee", "cow", "dog", "eel"]), "amount": kinds.randrange(10)}
        event |= {"boom": kinds.random() < 0.1, "skip": kinds.random() < 0.1}
        payloads.append(b"{" if kinds.random() < 0.05 else json.dumps(event).encode())
    inputs.append(payloads)
for form in (PerRecord, PerBatch, Awaiting, Promising):
    outcome = Run(job(form, on_error="dead-letter", lateness_ms=3), inputs, random.Random(9)).run(largest=7, crash=0.1)
    assert sum(map(len, outcome.results.values())) > 300
    digest.update(repr((list(outcome.results.items()), outcome.counts, outcome.snapshots)).encode())
    digest.update(job(form).fingerprint().encode())
print(digest.hexdigest())
"""


def digest(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("seed", ["1", "4242"])
def test_a_run_is_the_same_under_every_hash_seed(seed: str) -> None:
    assert digest(seed) == digest("0")
