"""The import contracts (.importlinter) break when a room imports what it must not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOMS, ROOT

# contract, file that breaks it, line
BREACHES = [
    ("Imports point one way", "wcrdt/planted.py", "import nodes.log.contract"),
    ("Imports point one way", "nodes/planted.py", "import nexmark.model"),
    ("Imports point one way", "nexmark/planted.py", "import deploy"),
    ("Nexmark's model", "nexmark/queries/planted.py", "import nodes.log"),
    ("Inside Nexmark", "nexmark/queries/planted.py", "import nexmark.oracle"),
    ("The oracles share no line", "nexmark/oracle/planted.py", "import holon"),
    ("Nexmark starts jobs", "nexmark/planted.py", "import nodes.machine"),
    ("The node's state machine", "nodes/machine/planted.py", "import lmdb"),
    ("The node's state machine", "nodes/machine/planted.py", "import nodes.log"),
    ("The pure rooms", "holon/planted.py", "import structlog"),
    ("Inside wcrdt", "wcrdt/windows/planted.py", "import wcrdt.replica.slots"),
    ("Inside holon", "holon/formats/planted.py", "import holon.tracks.task"),
    ("Inside nodes", "nodes/checkpoints/planted.py", "import nodes.machine.node"),
    ("Inside nodes", "nodes/streams/planted.py", "import nodes.fleet.monitor"),
    ("Inside nodes", "nodes/planted.py", "x = 1"),
    ("Inside the log", "nodes/log/embedded/planted.py", "import nodes.log.kafka.log"),
    ("Logs do not know", "nodes/log/kafka/planted.py", "import nodes.log.embedded.log"),
    ("Inside the log", "nodes/log/codecs/planted.py", "import nodes.log.checks"),
    ("Inside Kafka", "nodes/log/kafka/producer.py", "import nodes.log.kafka.direct.producer"),
    ("Inside transactions", "nodes/transactions/clients/planted.py", "import nodes.transactions.driver"),
]


def lint(tree: Path) -> str:
    """Run import-linter on a tree; gives its report, in which each contract is KEPT or BROKEN."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the rooms and the contracts."""
    for room in (*ROOMS, "deploy"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_copy_keeps_all_contracts(tree: Path) -> None:
    report = lint(tree)
    assert "BROKEN" not in report and "KEPT" in report, report


@pytest.mark.parametrize(("contract", "file", "line"), BREACHES)
def test_planted_import_breaks_its_contract(tree: Path, contract: str, file: str, line: str) -> None:
    (tree / file).write_text(f"{line}\n")
    report = lint(tree)
    assert re.search(rf"{contract}.* BROKEN", report), report
