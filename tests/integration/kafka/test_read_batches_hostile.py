"""Compiled loops over hostile bytes, with bounds checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.nodes.log.kafka.direct import test_read_batches

ROOT = Path(__file__).parents[3]


def test_no_bytes_whatever_lead_out_of_the_buffer() -> None:
    """In a process of its own, where behind the padding no memory is: another place that is read ends it."""
    command = [sys.executable, "-X", "faulthandler", "-m", test_read_batches.__name__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    intact, changed, rows = map(int, done.stdout.split())
    assert intact > 100 and changed > 500 and rows > 1000, "the walks got far enough to say something"
