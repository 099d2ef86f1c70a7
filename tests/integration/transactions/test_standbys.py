"""Standbys and restarts of real transactional nodes: a killed owner costs no reply, and its node comes back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import psutil
import pytest

from examples.bank import program
from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.transactions.test_nodes import ACCOUNTS, answers, money, open_accounts, pay_around
from tests.integration.txn_processes import PATIENT, SEQUENCERS

COMMAND = [sys.executable, "-m", "nodes.cli", "txn", "run", "examples.bank:program", "--sequencers", str(SEQUENCERS)]


def children(pid: int) -> set[int]:
    return {child.pid for child in psutil.Process(pid).children()}


def pids(said: Path) -> list[int]:
    """Of the nodes that were started first; empty: it has not said so yet, though they may be at work."""
    found = re.search(r"2 nodes: (\d+), (\d+)\n", said.read_text())
    return [] if found is None else [int(found[1]), int(found[2])]


@pytest.mark.long
def test_a_killed_owner_with_standbys_costs_nothing_and_is_started_again(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with open_log(f"embedded:{tmp_path / 'log'}") as log, said.open("wb") as file:
        create_topics(log, program, SEQUENCERS)
        client, draw = TransactionClient(log, "bank"), Random(5)
        command = [*COMMAND, "--replicas", "2", "--log-dir", str(tmp_path / "log"), *PATIENT]
        running = subprocess.Popen(command, cwd=ROOT, stderr=file)
        try:
            open_accounts(client)
            first = pay_around(client, draw, 100)
            answers(client, first, at_least=1)
            until(lambda: bool(pids(said)), "it says which nodes it has started")
            killed, other = pids(said)
            os.kill(killed, signal.SIGKILL)
            answers(client, first)
            until(lambda: children(running.pid) - {killed, other} != set(), "a node in its place")
            assert "node 0 has ended: killed by SIGKILL; starting it again" in said.read_text()
            second = pay_around(client, draw, 50)
            answers(client, second)
            running.send_signal(signal.SIGTERM)
            assert running.wait(PLENTY_S) == 0, said.read_text()
        finally:
            running.kill()
            running.wait(PLENTY_S)
        assert money(log) == 50 * ACCOUNTS
