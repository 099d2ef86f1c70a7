"""Spilled state on a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodes.transactions.checkpoints.spill import LmdbSpill, SpillFailed


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
