"""A hot partition of real nodes is seen, and split while transfers go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples.bank import program
from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.layouts.cpu import recent_cpu
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.transactions.test_nodes import ACCOUNTS, BANK, answers, money, open_accounts, pay_around
from tests.integration.txn_processes import SEQUENCERS, nodes

COMMAND = [sys.executable, "-m", "nodes.cli", "txn"]


@pytest.mark.long
def test_a_partition_is_split_while_transfers_go_on_and_every_reply_is_right(tmp_path: Path) -> None:
    options = ("--log-dir", str(tmp_path / "log"))

    def txn(*arguments: str) -> dict[str, Any]:
        command = [*COMMAND, *arguments, "--json", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PLENTY_S, check=True)
        return json.loads(done.stdout)

    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        topics = create_topics(log, program, SEQUENCERS)
        client, draw = TransactionClient(log, "bank"), Random(5)
        with nodes(2, BANK, *options):
            open_accounts(client)
            answers(client, [client.send("account", "a1", "deposit", [0]) for _ in range(200)])
            shown = txn("layout")
            heat, rows = shown["heat"], shown["partitions"]
            hottest = max(rows, key=lambda row: row["heat_share"])["partition"]
            assert heat["calls"] > 0 and heat["hottest"][0]["key"] == "a1" and heat["hottest"][0]["too_hot"]
            assert sum(row["calls_share"] for row in rows) > 0.99 and heat["hottest"][0]["partition"] == hottest
            until(
                lambda: (cpu := recent_cpu(log, topics)) is not None and len(cpu.cores) == len(rows), "all report CPU"
            )
            running = pay_around(client, draw, 60)
            told = txn("split", str(hottest), "--to", str(len(rows)))
            assert (told["partition"], told["target"], told["new"]) == (hottest, len(rows), True)
            assert (
                told["buckets"] > 0
                and told["keys"] > 0
                and told["heat_by"] in ("cpu", "recent")
                and not told["resumed"]
            )
            answers(client, [*running, *pay_around(client, draw, 30)])
            seen = txn("autoscale", "--dry-run", "--samples", "1", "--interval-s", "1.5", "--nodes", "1:4")
            (sample,) = seen["samples"]
            assert (sample["nodes"], sample["partitions"], sample["settled"]) == (2, len(rows) + 1, True)
            assert 0 <= sample["busy"] <= 1 and seen["action"]["kind"] in ("none", "nodes")
        assert money(log) == 50 * ACCOUNTS
