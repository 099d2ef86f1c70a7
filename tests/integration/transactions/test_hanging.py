"""Functions that loop for ever, on real node processes: ended by name, while all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.hanging_program import program
from tests.integration.processes import PLENTY_S
from tests.integration.txn_processes import SEQUENCERS, nodes
from transactional import Aborted

HANGING = "tests.integration.hanging_program:program"
SPINS = Aborted("TimedOut", ("function spin of operator it ran longer than node.function_timeout_ms",))


@pytest.mark.long
def test_what_loops_for_ever_is_ended_by_name_and_all_else_goes_on(tmp_path: Path) -> None:
    options = ("--log-dir", str(tmp_path / "log"), "-D", "node.function_timeout_ms=300")
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        with nodes(2, HANGING, *options) as processes:
            client = TransactionClient(log)
            before = [client.call("it", key, "add", [1], timeout_s=PLENTY_S) for key in "abcd"]
            assert client.try_call("it", "a", "spin", timeout_s=PLENTY_S) == SPINS
            assert client.try_call("it", "a", "spin_behind", ["b"], timeout_s=PLENTY_S) == SPINS
            after = [client.call("it", key, "add", [1], timeout_s=PLENTY_S) for key in "abcd"]
            assert (before, after) == ([1] * 4, [2] * 4)
            assert [process.poll() for process in processes] == [None, None], "no node has ended"
