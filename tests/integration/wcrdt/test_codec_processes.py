"""Bytes of lattices are equal in every process."""

import os
import subprocess
import sys
from pathlib import Path


def test_the_bytes_do_not_depend_on_the_hash_seed():
    script = """
from wcrdt import GSet, MapOf, MaxBy, ORSet, RecordOf, TopK, encode
words = [f"w{n}" for n in range(50)]
value = MapOf(RecordOf(s=GSet(), o=ORSet(), b=MaxBy(), f=MaxBy(ties="first"), t=TopK(5)))
for n, word in enumerate(words):
    verb, pair = "remove" if n % 7 == 0 else "add", (1, word)
    value.insert((word[:2], (word, (verb, words[n // 2]), pair, pair, pair)))
print(encode(value.copy()).hex())
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1 and len(seen.pop()) > 1_000
