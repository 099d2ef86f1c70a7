"""Nodes as processes: what `holon node` refuses, and when a fleet has failed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.errors import RunFailed
from nodes.fleet.processes import Fleet
from nodes.settings.settings import load_settings
from tests.integration.fleet_support import JOB, Command, Stage, run_command
from tests.integration.jobs_mixed import INPUT


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


@pytest.mark.long
def test_a_node_of_a_job_that_has_ended_says_what_is_behind_the_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.feed(50)
    with run_command(stage, "--nodes", "1", "--bounded") as command:
        assert command.json()["ending"] == "done"
    with Command("node", JOB, "--json", stage=stage) as late:
        assert "unread" not in late.json()
    stage.log.append(INPUT, 1, [b"{}"] * 3)
    with Command("node", JOB, "--json", stage=stage) as late:
        code, out, err = late.finish()
    stage.log.close()
    found = json.loads(out)
    assert (code, found["ending"], found["unread"]) == (0, "done", {"1": 3})
    assert "3 records behind it are unread (3 in partition 1)" in err and "--continue" in err
