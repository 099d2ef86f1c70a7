"""Nodes as processes: what `holon node` refuses, and when a fleet has failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodes.errors import RunFailed
from nodes.fleet.processes import Fleet
from nodes.settings.settings import load_settings


def test_a_node_refuses_to_run_without_its_assertions(tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-m", "nodes.cli", "node", "examples.query1:job", "--log-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "python -O" in done.stderr


def test_a_fleet_whose_nodes_are_all_dead_has_failed_unless_some_are_to_come() -> None:
    fleet = Fleet("examples.query1:job", load_settings(environ={}), nodes=1)
    with pytest.raises(RunFailed, match="all nodes of the job have ended"):
        fleet.check()
    fleet.awaited = 1
    fleet.check()
