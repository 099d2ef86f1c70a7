"""Another number of partitions on real nodes, one of which is killed with the command while keys move."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from examples.bank import program
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.transactions.test_nodes import ACCOUNTS, BANK, answers, money, open_accounts, pay_around
from tests.integration.txn_logs import KINDS, opened
from tests.integration.txn_processes import SEQUENCERS, nodes
from tests.shares import share_of
from transactional import Aborted

COMMAND = [sys.executable, "-m", "nodes.cli", "txn"]


WAYS = [(kind, mode) for kind in KINDS for mode in ("stop", "online", "portions")]
"""portions: online, with few bytes at once."""


@pytest.mark.long
@pytest.mark.parametrize("way", share_of(WAYS, 4, __name__))
def test_keys_move_though_a_node_and_the_command_are_killed_and_every_reply_is_right(
    way: tuple[str, str], tmp_path: Path
) -> None:
    kind, mode = way
    few = ["-D", "node.move_portion_bytes=10"] if mode == "portions" else []
    mode = "stop" if mode == "stop" else "online"
    with opened(kind, tmp_path) as (log, options):
        topics = create_topics(log, program, SEQUENCERS)
        client, draw = TransactionClient(log, "bank"), Random(5)
        with nodes(2, BANK, *options, *few, "-D", "node.checkpoint_interval_ms=500") as processes:
            open_accounts(client)
            once = client.call("account", "a1", "deposit", [0], request_id="once", timeout_s=PLENTY_S)
            requests = Repartitioning(log, topics)
            request = [*COMMAND, "repartition", "account", "--mode", mode]
            command = subprocess.Popen([*request, "--to", "6", *options], cwd=ROOT)
            until(lambda: requests.read().layouts.open is not None, "the request is on the control topic")
            first = pay_around(client, draw, 100)
            for process in (command, processes[0]):
                process.send_signal(signal.SIGKILL)
            command.wait(PLENTY_S)
            answers(client, first)
            until(lambda: requests.read().layouts.open is None, "the layout holds")
            assert requests.layout().partitions == 6
            before = requests.layout().number
            assert before > 2 if few else before == 1
            second = pay_around(client, draw, 50)
            answers(client, second)
            assert any(isinstance(client.take(name), Aborted) for name in (*first, *second))
            again = client.call("account", "a1", "deposit", [0], request_id="once", timeout_s=PLENTY_S)
            assert again == once, "its reply has moved with its key"
            done = subprocess.run(
                [*request, "--to", "1", "--spread", "all", "--json", *options],
                cwd=ROOT, capture_output=True, text=True, timeout=PLENTY_S, check=True,
            )  # fmt: skip
            told = json.loads(done.stdout)
            assert (told["from"], told["to"], told["partitions"]) == (6, 1, 1)
            assert told["layout"] > before + 2 if few else told["layout"] == before + 1
            assert told["mode"] == mode and told["keys"] > 0 and not told["resumed"] and told["downtime_ms"] >= 0
            third = pay_around(client, draw, 20)
            answers(client, third)
            processes[1].send_signal(signal.SIGTERM)
            assert processes[1].wait(PLENTY_S) == 0, "it leaves in order"
        assert money(log) == 50 * ACCOUNTS
        replay = subprocess.run([*COMMAND, "replay", BANK, *options], cwd=ROOT, timeout=PLENTY_S, check=False)
        assert replay.returncode == 0, "a run of the log crosses layouts"
