"""External calls from real node processes: what is logged is not asked again, whoever is killed."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, until
from tests.integration.txn_processes import SEQUENCERS, nodes
from tests.integration.txn_shop import program
from transactional import Aborted

SHOP = "tests.integration.txn_shop:program"


def calls(folder: Path) -> list[str]:
    """The idempotency key of each call that was made."""
    return (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


def test_external_calls_survive_a_kill_and_are_not_repeated_once_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLON_TEST_EXTERNAL", str(tmp_path))
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        client = TransactionClient(log, "shop")

        def pay(key: str, *given: float, name: str | None = None) -> object:
            return client.try_call("account", key, "pay", list(given), request_id=name, timeout_s=PLENTY_S)

        options = ("--log-dir", str(tmp_path / "log"))
        with nodes(1, SHOP, *options) as first:
            assert [pay(f"a{n}", n, name=f"paid{n}") for n in range(5)] == [n + 2 for n in range(5)]
            assert pay("a1", 1, name="paid1") == 3, "the same request once more"
            assert pay("declined", 100) == "declined 100"
            assert pay("odd", 200) == "BadValue"
            assert pay("late", 300, 0.2) == "ExternalTimeout"
            unknown = client.try_call("account", "a", "undeclared", timeout_s=PLENTY_S)
            assert isinstance(unknown, Aborted) and unknown.kind == "UnknownFunction"
            slow = client.send("account", "slow", "pay", [400], request_id="slow")
            until(lambda: "shop:slow:0" in calls(tmp_path), "the slow call")
            first[0].send_signal(signal.SIGKILL)
            first[0].wait(PLENTY_S)
        before = Counter(calls(tmp_path))
        assert set(before.values()) == {1}, before
        with nodes(1, SHOP, *options):  # begins at the start of the log, where all of them are asked for again
            until(lambda: calls(tmp_path).count("shop:slow:0") == 2, "the call is made again")
            (tmp_path / "go").touch()
            until(lambda: client.receive(0.1) >= 0 and slow in client.answered, "the reply")
            assert client.take(slow) == 402
            assert pay("a9", 9) == 11
            assert client.call("account", "slow", "balance", timeout_s=PLENTY_S) == 401
    after = Counter(calls(tmp_path))
    assert {key: times for key, times in after.items() if times > 1} == {"shop:slow:0": 2}
