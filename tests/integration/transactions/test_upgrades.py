"""Another version of a program on real node processes that are killed meanwhile: nothing is lost, one epoch has one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples.bank import program
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT
from tests.integration.transactions.test_nodes import ACCOUNTS, BANK, answers, open_accounts, pay_around
from tests.integration.txn_logs import KINDS, opened
from tests.integration.txn_processes import SEQUENCERS, nodes
from tests.shares import share_of

BANK_V2 = "examples.bank_v2:program"


def txn(*words: str) -> list[str]:
    return [sys.executable, "-m", "nodes.cli", "txn", *words]


def ended(process: subprocess.Popen[bytes]) -> tuple[int, Any]:
    out, _ = process.communicate(timeout=PLENTY_S)
    return process.returncode, json.loads(out)


def statements(client: TransactionClient) -> list[dict[str, Any]]:
    ids = [client.send("account", f"a{number}", "statement", []) for number in range(ACCOUNTS)]
    answers(client, ids)
    return [client.take(name) for name in ids]


@pytest.mark.long
@pytest.mark.parametrize("kind", share_of(KINDS, 2, __name__))
def test_nodes_go_on_with_another_version_while_one_is_killed_and_then_without_those_of_before(
    kind: str, tmp_path: Path
) -> None:
    with opened(kind, tmp_path) as (log, where):
        create_topics(log, program, SEQUENCERS)
        client, draw = TransactionClient(log, "bank"), Random(7)
        with nodes(2, BANK, *where) as (one, other):
            open_accounts(client)
            running = pay_around(client, draw, 60)
            upgrade = subprocess.Popen(txn("upgrade", BANK_V2, *where, "--json"), cwd=ROOT, stdout=subprocess.PIPE)
            answers(client, running, at_least=10)
            one.kill()
            code, found = ended(upgrade)
            assert code == 0, found
            assert found["since_epoch"] > 0 and found["problems"] == [] and not found["dry_run"]
            assert (found["before"]["version"], found["after"]["version"]) == (1, 2)
            answers(client, running)
            assert sum(each["cents"] for each in statements(client)) == 100 * 50 * ACCOUNTS
            with nodes(1, BANK_V2, *where):
                first = pay_around(client, draw, 20)
                answers(client, first)
                other.kill()  # the only one that was started with the program of before
                second = pay_around(client, draw, 20)
                answers(client, second)
                after = statements(client)
                assert sum(each["cents"] for each in after) == 100 * 50 * ACCOUNTS
                assert any(each["last"] for each in after)
        replay = subprocess.Popen(txn("replay", BANK_V2, *where, "--json"), cwd=ROOT, stdout=subprocess.PIPE)
        code, found = ended(replay)
        assert code == 0 and found["deterministic"], found
