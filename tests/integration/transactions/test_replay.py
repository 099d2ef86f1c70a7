"""`holon txn replay` on the log of real nodes: an honest job, and one whose function follows the order of a set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT
from tests.integration.txn_processes import SEQUENCERS, nodes
from tests.integration.txn_set_order import program

SETS = "tests.integration.txn_set_order:program"


def replayed(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-m", "nodes.cli", "txn", "replay", SETS, "--json", "--log-dir", str(folder), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PLENTY_S, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.long
def test_the_order_of_a_set_is_found_by_function_and_request(tmp_path: Path) -> None:
    names = [f"name {number}" for number in range(40)]
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        with nodes(1, SETS, "--log-dir", str(tmp_path / "log")):
            client = TransactionClient(log)
            for number in range(5):
                client.call("counter", f"k{number}", "add", [number], timeout_s=PLENTY_S)
            honest = replayed(tmp_path / "log")  # nodes are at work
            client.call("counter", "tour", "around", [names], request_id="by set", timeout_s=PLENTY_S)
    assert honest[:1] == (0,) and honest[1]["deterministic"] and honest[1]["divergence"] is None
    assert honest[1]["epochs"] > 0 and honest[1]["replies"] <= 5
    code, found, said = replayed(tmp_path / "log", "--from-epoch", "2")
    at = found["divergence"]
    assert code == 1 and not found["deterministic"] and "ctx.random" in said
    assert (at["operator"], at["key"], at["function"]) == ("counter", "tour", "around")
    assert at["request"]["id"] == "by set" and f"offset {at['request']['offset']}" in said
