"""A job on real nodes whose topics are trimmed while it works, then killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.bank import program
from nodes.log import Log, open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, until
from tests.integration.txn_logs import opened
from tests.integration.txn_processes import SEQUENCERS, nodes

BANK = "examples.bank:program"
OFTEN = ("node.failure_timeout_ms=1000", "node.checkpoint_interval_ms=50", "node.merged_checkpoint_interval_ms=100")
LAST = [part for each in OFTEN for part in ("-D", each)]


def run_trimmed(log: Log, *options: str) -> None:
    topics = create_topics(log, program, SEQUENCERS)
    client, paid = TransactionClient(log, "bank"), 0

    def pay() -> int:
        nonlocal paid
        ids = [client.send("account", f"a{number}", "deposit", [1]) for number in range(5)]
        until(lambda: client.receive(0.1) >= 0 and all(name in client.answered for name in ids), "replies")
        for name in ids:
            client.take(name)
        paid += 1
        return paid

    def is_trimmed() -> bool:
        pay()
        commits = [log.start_offset(topics.commits, p) for p in range(program.partitions)]
        return min(log.start_offset(topics.epochs, 0), log.start_offset(topics.control, 0)) > 0 and any(commits)

    with nodes(2, BANK, *options, last=LAST):
        until(is_trimmed, "the epochs, commits and the control topic to be trimmed")
    with nodes(2, BANK, *options, last=LAST):  # killed, and started again
        pay()
        for number in range(5):
            assert client.call("account", f"a{number}", "balance", timeout_s=PLENTY_S) == paid


@pytest.mark.long
def test_nodes_that_start_on_trimmed_topics_know_every_payment(tmp_path: Path) -> None:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        run_trimmed(log, "--log-dir", str(tmp_path / "log"))


@pytest.mark.long
def test_the_same_on_kafka(tmp_path: Path) -> None:
    with opened("kafka", tmp_path) as (log, options):
        run_trimmed(log, *options)
