"""The fixture ``holon_sim`` in a suite of its own, as a user's suite has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGIN = "nodes.sim.user_jobs.pytest_plugin"

SUITE = """
import msgspec
import pytest
from tests.sim import user_jobs_given as given
from examples.top_items import flow

def test_right(holon_sim):
    happened = holon_sim(given.RIGHT["sums"], given.lines(), seeds=2)
    assert happened["died"] and happened["saved"]

def test_a_flow_and_a_file(holon_sim, tmp_path):
    sale = {"ts": 1000, "item": "tea", "quantity": 2}
    (tmp_path / "sales.jsonl").write_bytes(msgspec.json.encode(sale) + b"\\n")
    assert holon_sim(flow, tmp_path / "sales.jsonl", seeds=1, partitions=2)

def test_two_topics(holon_sim):
    assert holon_sim(given.refunds(), given.of_two_topics(), seeds=1)

def test_a_topic_is_not_named(holon_sim):
    holon_sim(given.refunds(), given.lines(), seeds=1)

def test_wrong(holon_sim):
    holon_sim(given.by_clock(), [{"at": 1, "id": 1, "amount": 1}], seeds=3, nodes=2)

def test_failing(holon_sim):
    holon_sim(given.failing(), given.lines(), seeds=1)
"""


def run(folder: Path, suite: str, *arguments: str) -> str:
    """The output of pytest, with this one plugin."""
    (folder / "test_suite.py").write_text(suite)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
def test_the_fixture_passes_what_is_right_and_names_the_seed_of_what_is_wrong(tmp_path: Path) -> None:
    output = run(tmp_path, SUITE)
    assert "3 failed, 3 passed" in output, output
    assert re.search(r"job 'by-clock': seed 2199023255552 failed: .*results on 'results'", output), output
    assert "replay: holon_sim(..., seed=2199023255552, nodes=2)" in output
    assert "'refunds' reads orders, refunds: give a mapping" in output
    assert "'failing' fails on these records in one plain pass" in output


def test_a_suite_without_the_fixture_imports_nothing_of_the_engine(tmp_path: Path) -> None:
    suite = """
import sys
def test_nothing(): assert not {"numpy", "msgspec", "holon", "wcrdt", "nodes.sim.run"} & set(sys.modules)
"""
    output = run(tmp_path, suite)
    assert "1 passed" in output, output


@pytest.mark.parametrize("group", ["pytest11"])
def test_pytest_finds_the_plugin_by_its_entry_point(group: str) -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points[group] == {"holon": PLUGIN}
