"""Spilled state on a full disk, and in a process that a node forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.runtime.trial_process import Note, TrialLimits, tried_apart
from nodes.transactions.checkpoints.spill import LmdbSpill, SpillFailed, Spills
from transactional.operators import StateKey


def test_a_full_disk_is_an_error_that_says_where(tmp_path: Path) -> None:
    """In a process whose files may have no more than 200 kB."""
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
from nodes.transactions.checkpoints.spill import Spills
store = Spills({str(tmp_path)!r}, 10_000).store()
for number in range(10_000):
    store.apply({{("it", str(number)): b"v" * 1000}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"SpillFailed: state cannot be spilled to {tmp_path}: " in done.stderr, done.stderr
    assert "raise node.state_memory_mb" in done.stderr
    with pytest.raises(SpillFailed, match="cannot be spilled"):
        LmdbSpill("/dev/null/there")


def test_a_process_that_a_trial_forks_reads_state_and_writes_none(tmp_path: Path) -> None:
    """It has the file of its parent. Once it spilled there, over pages that the parent reads."""
    store, known = Spills(str(tmp_path), 1_500_000).store(), dict[StateKey, bytes | None]()
    for number in range(9_000):
        key = "it", f"k{number % 5_000}"
        known[key] = b"%d" % number * 20
        store.apply({key: known[key]})

    def step(note: Note) -> None:
        right = all(store.read(key) == known[key] for key in [*known][::7] * 2 + [*known] * 2)
        right &= sorted(store.scan("it", "k1")) == sorted(
            (key, value) for (_, key), value in known.items() if key.startswith("k1")
        )
        note.write(b"%d" % (right and store.copied() == known and store.entries_in_memory < 4_000))
        os._exit(3)

    assert _last_word(step) == b"1", "it has read all, and kept little in memory"
    assert {key: store.read(key) for key in known} == known
    spill = LmdbSpill(str(tmp_path))
    spill.write([(("it", "k"), b"v"), (("it", "gone"), b"v")])

    def write(note: Note) -> None:
        spill.write([(("it", "k"), b"w"), (("it", "gone"), None)])
        right = spill.get(("it", "k")) == b"w" and spill.get(("it", "gone")) is None
        note.write(b"%d" % (right and spill.scan("it", "") == [("k", b"w")] and len(list(spill.rows())) == 1))
        os._exit(3)

    assert _last_word(write) == b"1"
    assert spill.get(("it", "k")) == b"v" == spill.get(("it", "gone"))


def _last_word(step: Callable[[Note], None]) -> bytes:
    ended = tried_apart(step, TrialLimits(60_000, 4_096), lambda: None)
    return b"" if ended is None else ended.note
