"""`holon node` by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_node_refuses_to_run_without_its_assertions(tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-m", "nodes.cli", "node", "examples.query1:job", "--log-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "python -O" in done.stderr
