"""Fleets of transactional nodes of this release and an earlier one, each from its own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from nodes.machine.envelope import FORMAT_VERSION
from nodes.machine.messages import COPIES_VERSION, LAYOUTS_VERSION
from tests.integration.processes import ROOT

SEEDS = 15
REGRESSIONS = {COPIES_VERSION: (562949970001010,)}
"""By format: seeds that have failed. An operator that was moved alone was sought at its old home by an older node."""


def judged(number: int, seed: int, seeds: int) -> dict[str, dict[str, int]]:
    """In a process of its own: both releases have modules of the same names."""
    command = [sys.executable, "-m", "tests.sim.transactions_two_releases", "--json", "--format", str(number)]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--seeds", str(seeds)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["formats"][0] < number and told["formats"][1] == FORMAT_VERSION and told["wrong"] == []
    return told


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [LAYOUTS_VERSION, COPIES_VERSION, FORMAT_VERSION])
def test_rolling_upgrades_and_back_lose_and_repeat_nothing_and_older_nodes_stop_by_name(number: int) -> None:
    told = judged(number, int(os.environ["SIM_BASE_SEED"]), SEEDS)
    releases, met = told["releases"], told["met"]
    assert releases["started"] and releases["earlier started"] and releases["earlier begun with checkpoints"], told
    assert met["answered"] and met["saved"] and met["promotions"], told
    assert number == FORMAT_VERSION or told["stops"], told


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("number", "seed"), [(number, seed) for number, seeds in REGRESSIONS.items() for seed in seeds]
)
def test_what_was_wrong_once_is_right(number: int, seed: int) -> None:
    assert judged(number, seed, 1)["releases"]["earlier stopped"]
