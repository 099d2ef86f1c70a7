"""Fleets of this release and the last one with another wire format, each from its own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from nodes.machine.envelope import FORMAT_VERSION
from tests.integration.processes import ROOT

SEEDS = 20


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", ["sharded", "flow"])
def test_a_rolling_upgrade_and_back_from_the_release_before_costs_nothing(case: str) -> None:
    """In a process of its own: both releases have modules of the same names."""
    command = [sys.executable, "-m", "tests.sim.two_releases", "--json", "--seeds", str(SEEDS), "--case", case]
    done = subprocess.run(
        [*command, "--seed", os.environ["SIM_BASE_SEED"]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["formats"][0] < told["formats"][1] == FORMAT_VERSION and told["wrong"] == []
    assert told["met"]["started"] and told["met"]["earlier started"], told
    assert case != "sharded" or told["met"]["earlier stopped"], told
