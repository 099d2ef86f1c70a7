"""Modules of the user whose names are those of installed packages: they do no harm, or are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.processes import PLENTY_S, ROOT


def holon(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, called in ``folder`` as its console script is: that folder is not on the path."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-P", "-m", "nodes.cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PLENTY_S, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a job and a program of the user's."""
    for name in ("query1", "bank"):
        (tmp_path / f"my_{name}.py").write_text((ROOT / "examples" / f"{name}.py").read_text())
    rows = "".join(json.dumps({"ts": 1000 * n}) + "\n" for n in range(40))
    (tmp_path / "bids.jsonl").write_text(rows)
    return tmp_path


INSTALLED = ("nodes", "transactional", "holon", "wcrdt", "numpy", "lmdb", "msgspec", "rich")


def test_modules_of_the_current_folder_do_not_shadow_installed_ones(folder: Path) -> None:
    for name in INSTALLED:
        (folder / f"{name}.py").write_text("x = 1\n")
    log = ("--log-dir", str(folder / "log"))
    made = holon(folder, "log", "append", "bids.jsonl", "--topic", "bids", "--create", "--partitions", "2", *log)
    assert made.returncode == 0, made.stderr
    ran = holon(folder, "run", "my_query1:job", "--nodes", "1", "--bounded", "--json", "--no-view", *log)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["accepted"] == 40


def test_a_hidden_module_that_is_asked_for_is_named(folder: Path) -> None:
    (folder / "nodes.py").write_text("job = 1\n")
    ran = holon(folder, "run", "nodes:job", "--log-dir", str(folder / "log"))
    assert ran.returncode == 2
    assert "nodes.py" in ran.stderr and "rename your module" in ran.stderr


def test_a_hidden_module_that_the_users_module_imports_is_named(folder: Path) -> None:
    (folder / "nodes.py").write_text("helper = 1\n")
    (folder / "mine.py").write_text("from nodes import helper\n")
    for command in (("run", "mine:job"), ("txn", "run", "mine:program")):
        ran = holon(folder, *command, "--log-dir", str(folder / "log"))
        assert ran.returncode == 2, ran.stderr
        assert "nodes.py" in ran.stderr and "rename your module" in ran.stderr
