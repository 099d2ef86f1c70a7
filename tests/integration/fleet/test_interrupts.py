"""Ctrl-C and SIGTERM, whatever a command is at: exit codes 130 and 0, and no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodes.python_process import child_environment, deaf_children
from nodes.runtime.child_node import ProgramNode, child_command
from tests.integration.fleet_support import Command, Stage
from tests.integration.jobs_waiting import GATE
from tests.integration.processes import until
from tests.tidy.source import ROOT

BANK = "examples.bank:program"
NODES = (("node", "tests.integration.jobs_mixed:job", "--json"), ("txn", "node", BANK))
GATED = (
    ("node", "tests.integration.jobs_gated:job", "--json"),
    ("txn", "node", "tests.integration.jobs_gated:program"),
)
"""They cannot join before a file is there, however late a signal comes."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, partitions=2)
    stage.feed(10)
    yield stage
    stage.log.close()


def interrupt(command: Command) -> tuple[int, str, str]:
    """As a terminal does it: everything in the foreground gets the signal."""
    os.killpg(command.process.pid, signal.SIGINT)
    return command.finish()


def listens(command: Command, number: int) -> bool:
    """Whether the process handles this signal by now."""
    status = Path(f"/proc/{command.process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("arguments", GATED, ids=["streams", "transactions"])
def test_a_node_that_is_asked_to_leave_while_it_starts_says_so(
    stage: Stage,
    arguments: tuple[str, ...],
    number: int,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv(GATE, str(gate))
    with Command(*arguments, stage=stage) as command:
        until(lambda: listens(command, signal.SIGTERM), "it listens")
        command.signal(number)
        gate.touch()
        code, out, err = command.finish()
    assert code == exit_code, err
    assert "stopped before it had joined the job" in err and "Traceback" not in err
    assert "--json" not in arguments or json.loads(out)["ending"] == "stopped"


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("arguments", NODES, ids=["streams", "transactions"])
def test_a_node_at_work_leaves_in_order_and_says_so(
    stage: Stage, arguments: tuple[str, ...], number: int, exit_code: int
) -> None:
    with Command("--log-level", "info", *arguments, stage=stage) as command:
        command.says("metrics on")
        command.signal(number)
        code, out, err = command.finish()
    assert code == exit_code, err
    assert '"ending":"stopped"' in out or "stopped" in err


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("log", "tail", "in", "--follow"), None),
        (("txn", "serve", "--job", "bank", "--port", "0"), None),
        (("txn", "run", BANK, "--nodes", "1"), "1 nodes:"),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, tuple) else "",
)
def test_ctrl_c_is_130_and_no_traceback(stage: Stage, arguments: tuple[str, ...], printed: str | None) -> None:
    if "serve" in arguments:
        with Command("txn", "node", BANK, stage=stage) as node:
            until(lambda: "bank-txn-requests" in stage.log.topics(), "the job's topics are there")
            node.signal(signal.SIGTERM)
            node.finish()
    with Command(*arguments, stage=stage) as command:
        if printed is None:
            assert command.process.stdout is not None and command.process.stdout.readline()
        else:
            command.says(printed)
        code, _, err = interrupt(command)
    assert code == 130, err
    assert "Traceback" not in err


def test_ctrl_c_ends_a_simulation_with_its_processes_and_says_so_once() -> None:
    with Command("sim", "--seeds", "100000", "--processes", "2") as command:
        run = psutil.Process(command.process.pid)
        until(lambda: len(run.children()) >= 2, "its processes are started")
        code, _, err = interrupt(command)
    assert code == 130 and "Traceback" not in err and err.count("interrupted") == 1, err


def test_an_interrupt_waits_until_child_processes_are_started() -> None:
    over, started = threading.Event(), []
    other = threading.Thread(target=over.wait)  # it may take the signal, which the main thread blocks
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), deaf_children():
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: signal.SIGINT not in signal.sigpending(), "the other thread has taken it")
            started.append("child")
    finally:
        over.set()
        other.join()
    assert started == ["child"]


def test_an_interrupt_while_nodes_are_started_leaves_none(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found at a load of 40: what was left of an interrupted comparison made its removed folder anew."""
    start, started = subprocess.Popen, []

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        if len(started) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), stage.fleet(3):
        pytest.fail("the fleet was started")
    assert len(started) == 2
    assert [process.poll() is None for process in started] == [False, False]


def test_nodes_of_transactions_whose_parent_has_gone_before_they_began_leave(stage: Stage) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    asked = ProgramNode(program=BANK, number=0, sequencers=4, parent=gone.pid)
    environment = child_environment(stage.settings.environment())
    node = subprocess.run(child_command(asked), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert node.returncode == 0, node.stderr
    assert "node 0: stopped" in node.stderr
