"""Functions that end their process, on nodes that are started again: answered by name, while all else goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodes.log import Log, open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.crashing_program import program
from tests.integration.processes import PLENTY_S, ROOT
from tests.integration.txn_processes import PATIENT, SEQUENCERS
from transactional import Aborted

CRASHING = "tests.integration.crashing_program:program"


class Restarted:
    """Node processes, each of which is started again when it has ended."""

    def __init__(self, count: int, log_dir: Path, *options: str) -> None:
        command = [sys.executable, "-m", "nodes.cli", "txn", "node", CRASHING, "--sequencers", str(SEQUENCERS)]
        self._command = [*command, "--log-dir", str(log_dir), *options, *PATIENT]
        self._over = threading.Event()
        self.deaths = 0
        self._processes = [self._start(number) for number in range(count)]
        self._thread = threading.Thread(target=self._restart, daemon=True)
        self._thread.start()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._command, "--number", str(number)], cwd=ROOT)

    def _restart(self) -> None:
        while not self._over.wait(0.05):
            for number, process in enumerate(self._processes):
                if process.poll() is not None:
                    self.deaths += 1
                    self._processes[number] = self._start(number)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(PLENTY_S)
        for process in self._processes:
            process.kill()
            process.wait(PLENTY_S)


@contextmanager
def crashing(tmp_path: Path, count: int, *options: str) -> Iterator[tuple[Log, TransactionClient, Restarted]]:
    """Nodes, and a client of theirs."""
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        nodes = Restarted(count, tmp_path / "log", *options)
        try:
            yield log, TransactionClient(log), nodes
        finally:
            nodes.stop()


def result_of(client: TransactionClient, name: str) -> Any:
    """Of a request that was sent."""
    end_s = time.monotonic() + PLENTY_S
    while name not in client.answered:
        client.receive(1.0)
        assert time.monotonic() < end_s, f"no reply to {name}"
    return client.take(name)


def crashed(what: str, how: str) -> Aborted:
    return Aborted("Crashed", (f"function {what} of operator it {how}",))


@pytest.mark.long
@pytest.mark.parametrize("count", [2, pytest.param(1, marks=pytest.mark.nightly)])
def test_what_ends_its_process_is_answered_by_name_and_all_else_goes_on(tmp_path: Path, count: int) -> None:
    with crashing(tmp_path, count) as (_, client, nodes):
        before = [client.call("it", key, "add", [1], timeout_s=PLENTY_S) for key in "abcd"]
        asked = [client.send("it", "a", "leave", [0]), client.send("it", "b", "leave_behind", ["c"])]
        others = [client.send("it", key, "add", [1]) for key in "abcd"]
        assert result_of(client, asked[0]) == crashed("leave", "ends its process (exit code 0)")
        assert result_of(client, asked[1]) == crashed("leave", "ends its process (exit code 3)")
        after = [result_of(client, each) for each in others]
        assert client.try_call("it", "d", "fault", timeout_s=PLENTY_S) == crashed("fault", "ends its process (SIGSEGV)")
        assert (before, after) == ([1] * 4, [2] * 4)
        assert [client.call("it", key, "add", [0], timeout_s=PLENTY_S) for key in "abcd"] == [2] * 4
        assert nodes.deaths >= 2
    command = [
        sys.executable,
        "-m",
        "nodes.cli",
        "txn",
        "replay",
        CRASHING,
        "--json",
        "--log-dir",
        str(tmp_path / "log"),
    ]
    replayed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PLENTY_S, check=False)
    assert replayed.returncode == 0 and json.loads(replayed.stdout)["deterministic"], replayed.stderr


@pytest.mark.long
def test_what_takes_too_much_memory_or_keeps_the_lock_is_answered_by_name(tmp_path: Path) -> None:
    options = ("-D", "node.function_timeout_ms=1000", "-D", "node.function_memory_mb=100")
    with crashing(tmp_path, 1, *options) as (_, client, nodes):
        assert client.call("it", "b", "add", [1], timeout_s=PLENTY_S) == 1
        grown = client.try_call("it", "a", "grow", [300], timeout_s=PLENTY_S)
        assert grown == crashed("grow", "takes more than 100 MB (node.function_memory_mb)")
        held = client.try_call("it", "a", "hold", timeout_s=PLENTY_S)
        assert held == crashed("hold", "does not give the interpreter's lock back")
        assert client.call("it", "b", "add", [1], timeout_s=PLENTY_S) == 2
        assert nodes.deaths >= 4
