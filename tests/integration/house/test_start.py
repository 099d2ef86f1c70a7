"""Modules that a node imports before its arguments are converted, when typer imports pydantic: each costs a start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nodes.python_process import child_environment
from tests.tidy.source import ROOT

HEAVY = frozenset(
    """
    asyncio confluent_kafka jgo llvmlite multiprocessing numba numpy.ma numpy.random obstore pandas
    prometheus_client psutil pyarrow pydantic pyspark redis rich starlette structlog unittest uvicorn
    """.split()
)
"""Of these a node needs none before it opens its log, and most nodes none at all."""
MODULES = (
    "nodes.streams.process",
    "nodes.transactions.process",
    "nodes.cli.commands.node",
    "nodes.cli.txn.run_and_node",
)


def imported(statement: str) -> set[str]:
    """All modules that a process has after this statement."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", MODULES)
def test_node_imports_nothing_heavy(module: str) -> None:
    assert HEAVY & imported(f"import {module}") == set()


def test_settings_are_checked_without_heavy_packages() -> None:
    statement = "from nodes.settings.settings import load_settings\nload_settings(definitions=['node.replicas=2'])"
    assert HEAVY & imported(statement) == set()


def test_heavy_module_would_be_seen() -> None:
    assert HEAVY & imported("import numpy.ma") == {"numpy.ma"}
