"""Modules that a node imports before its arguments are converted, when typer imports pydantic: each costs a start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nodes.light_start import BLAS_THREADS
from nodes.python_process import child_environment
from nodes.runtime.child_node import JobNode, ProgramNode, child_command
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
    "nodes.cli.child_node",
    "nodes.cli.node_runs",
    "nodes.cli.prepared_child",
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


@pytest.mark.parametrize(
    "asked",
    [
        JobNode(job="no_such_module:job", number=0),
        ProgramNode(program="no_such_module:program", number=0, sequencers=1),
    ],
)
def test_child_of_a_fleet_reads_its_argument_without_heavy_packages(asked: JobNode | ProgramNode) -> None:
    """Up to the import of the user's module; that a child starts at all, every test of a fleet shows."""
    body = "try:\n    main([sys.argv[1]])\nfinally:\n    print(*sys.modules)"
    script = f"import sys\nfrom nodes.cli.child_node import main\n{body}"
    command = [sys.executable, "-P", "-c", script, child_command(asked)[-1]]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "no_such_module" in done.stderr
    assert HEAVY & set(done.stdout.split()) == set()


@pytest.mark.parametrize(
    "called",
    [
        "entry import main; main(['--help'])",
        "child_node import main; main(['?'])",
        "prepared_child import main as m; m()",
    ],
)
def test_numpy_gets_one_thread_unless_the_environment_says_how_many(called: str) -> None:
    """A second one spins for a tenth of a second when numpy is imported, in each process."""
    name = "OPENBLAS_NUM_THREADS"
    script = f"import os\ntry:\n    from nodes.cli.{called}\nfinally:\n    print('threads', os.environ.get({name!r}))"
    command = [sys.executable, "-P", "-c", script]
    unset = {each: value for each, value in child_environment().items() if each not in BLAS_THREADS}
    for environment, wanted in (unset, "1"), (unset | {name: "2"}, "2"):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.stdout.endswith(f"threads {wanted}\n"), done.stdout + done.stderr


def test_settings_are_checked_without_heavy_packages() -> None:
    statement = "from nodes.settings.settings import load_settings\nload_settings(definitions=['node.replicas=2'])"
    assert HEAVY & imported(statement) == set()


def test_heavy_module_would_be_seen() -> None:
    assert HEAVY & imported("import numpy.ma") == {"numpy.ma"}
