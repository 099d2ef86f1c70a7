"""A full disk under transactional nodes: they wait, say for what, and go on; every reply is right."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from examples.bank import program
from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.scraping import ask, scrape
from tests.integration.transactions.test_metrics import ports
from tests.integration.transactions.test_nodes import ACCOUNTS, BANK, answers, money, open_accounts, pay_around
from tests.integration.txn_processes import SEQUENCERS, nodes

pytestmark = pytest.mark.usefixtures("no_bytecode")
UNLIMITED = resource.RLIM_INFINITY
HEADS = 2 * resource.getpagesize()
"""Bytes of a file that name its newest state. They have their place on a full disk, too: only new ones find none."""


def test_nodes_wait_on_a_full_disk_and_go_on_where_they_were(tmp_path: Path) -> None:
    """Its stand-in is a limit on the size of files, of the nodes alone: everybody may set one."""
    targets = tmp_path / "targets"
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        client, draw = TransactionClient(log, "bank"), Random(5)
        options = ("--log-dir", str(tmp_path / "log"), "-D", f"metrics.targets_dir={targets}")
        with nodes(2, BANK, *options, stderr=subprocess.PIPE) as processes:
            until(lambda: len(ports(targets)) == 2, "both serve")
            asked = ports(targets)
            open_accounts(client)
            ids = pay_around(client, draw, 100)
            answers(client, ids, at_least=1)
            for process in processes:
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (HEADS, UNLIMITED))
            until(lambda: all("waits until there is room" in ask(port, "/readyz")[1] for port in asked), "both wait")
            ids += pay_around(client, draw, 100)
            for port in asked:
                code, text = ask(port, "/readyz")
                assert code == 503 and "topic 'bank-txn-" in text and "File too large" in text
                assert ask(port, "/healthz")[0] == 200, "a restart would not help"
                ((where, seconds),) = scrape(port)["holon_txn_log_full_seconds"].items()
                assert dict(where)["topic"].startswith("bank-txn-") and dict(where)["partition"] and seconds > 0
            assert [process.poll() for process in processes] == [None, None]
            processes[0].kill()
            processes[0].wait(PLENTY_S)
            resource.prlimit(processes[1].pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
            answers(client, ids)
        assert money(log) == 50 * ACCOUNTS
    told = [process.stderr.read().decode() for process in processes if process.stderr is not None]
    for text in told:
        assert text.count("waits until there is room on the log, and nothing is lost: topic 'bank-txn-") == 1, text
    assert [text.count("there is room on the log again") for text in told] == [0, 1]
    assert "Traceback" not in "".join(told)


@pytest.mark.long
def test_a_call_and_an_upgrade_wait_on_a_full_disk_and_are_made_once_there_is_room(tmp_path: Path) -> None:
    """The limit is on the size of files of the commands alone."""
    where = ("--log-dir", str(tmp_path / "log"))
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        with nodes(1, BANK, *where):
            open_accounts(TransactionClient(log, "bank"))
            deposit = ("call", "account", "a1", "deposit", "[7]", "--timeout", "60", "--json")
            code, out, told = _with_room_later(*deposit, *where)
            assert code == 0 and json.loads(out) == {"result": 57}, told
            assert told.count("waits for room on the log, and nothing is requested until then: topic 'bank-txn-") == 1
            code, out, told = _with_room_later("upgrade", "examples.bank_v2:program", "--json", *where)
            assert code == 0 and json.loads(out)["since_epoch"] > 0, told
            assert told.count("waits for room on the log, and nothing is requested until then: topic 'bank-txn-") == 1


def _with_room_later(*words: str) -> tuple[int, str, str]:
    """A command that has room for nothing until it has said that it waits; how it ends, and its outputs."""
    process = subprocess.Popen(
        ["prlimit", f"--fsize={HEADS}:unlimited", sys.executable, "-m", "nodes.cli", "txn", *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    told = ""
    while "waits for room" not in told and (line := process.stderr.readline()):
        told += line
    if process.poll() is None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
    out, rest = process.communicate(timeout=PLENTY_S)
    return process.returncode, out, told + rest
