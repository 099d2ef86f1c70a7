"""Transactional functions on real node processes: killed nodes, an embedded log and a Kafka broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from examples.bank import program
from nodes.log import Log, open_log
from nodes.machine import messages as m
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.txn_logs import opened
from tests.integration.txn_processes import PATIENT, SEQUENCERS, nodes
from tests.integration.txn_replay import Replay
from transactional import Aborted

ACCOUNTS = 20
BANK = "examples.bank:program"


def pay_around(client: TransactionClient, draw: Random, count: int) -> list[str]:
    """Random transfers, a third of them more than is there; gives the requests' ids."""
    ids = []
    for _ in range(count):
        start, to = draw.sample(range(ACCOUNTS), 2)
        ids.append(client.send("account", f"a{start}", "transfer", {"to": f"a{to}", "amount": draw.randrange(1, 60)}))
    return ids


def open_accounts(client: TransactionClient) -> None:
    ids = [client.send("account", f"a{number}", "deposit", [50]) for number in range(ACCOUNTS)]
    answers(client, ids)


def answers(client: TransactionClient, ids: list[str], at_least: int | None = None) -> None:
    """Wait until so many of these (all) are answered."""
    wanted = len(ids) if at_least is None else at_least
    until(lambda: client.receive(0.1) >= 0 and sum(name in client.answered for name in ids) >= wanted, "replies")


def money(log: Log) -> int:
    """In all accounts, after the replay has found every reply right."""
    replayed = Replay(log, program).check()
    return sum(replayed.serial.get(*key).balance for key in replayed.serial.state)


def run_with_a_kill(log: Log, *options: str) -> None:
    create_topics(log, program, SEQUENCERS)
    client, draw = TransactionClient(log, "bank"), Random(5)
    with nodes(2, BANK, *options) as processes:
        open_accounts(client)
        first = pay_around(client, draw, 150)
        answers(client, first, at_least=1)
        processes[0].send_signal(signal.SIGKILL)
        answers(client, first)
        second = pay_around(client, draw, 50)
        answers(client, second)
        outcomes = [client.take(name) for name in (*first, *second)]
        assert any(isinstance(outcome, Aborted) for outcome in outcomes)
        assert any(isinstance(outcome, int) for outcome in outcomes)
        processes[1].send_signal(signal.SIGTERM)
        assert processes[1].wait(PLENTY_S) == 0, "it leaves in order"
    assert money(log) == 50 * ACCOUNTS


def test_a_killed_node_costs_no_transaction_and_no_money(tmp_path: Path) -> None:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        run_with_a_kill(log, "--log-dir", str(tmp_path / "log"))


@pytest.mark.long
def test_the_same_on_kafka(tmp_path: Path) -> None:
    with opened("kafka", tmp_path) as (log, options):
        run_with_a_kill(log, *options)


def test_the_same_request_id_runs_once_and_gets_the_same_reply(tmp_path: Path) -> None:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        with nodes(1, BANK, "--log-dir", str(tmp_path / "log")):
            client = TransactionClient(log)
            assert client.call("account", "a", "deposit", [5], request_id="once", timeout_s=PLENTY_S) == 5
            assert client.call("account", "a", "deposit", [5], request_id="once", timeout_s=PLENTY_S) == 5
            reused = client.try_call("account", "a", "deposit", [6], request_id="once", timeout_s=PLENTY_S)
            assert reused == Aborted("RequestIdReused", ("once",))
            unknown = client.try_call("account", "a", "depose", [6], timeout_s=PLENTY_S)
            assert isinstance(unknown, Aborted) and unknown.kind == "UnknownFunction"
            assert client.call("account", "a", "balance", timeout_s=PLENTY_S) == 5


@pytest.mark.long
def test_the_command_calls_a_function_and_says_what_is_wrong(tmp_path: Path) -> None:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
    options = ("--log-dir", str(tmp_path / "log"))
    with nodes(1, BANK, *options):
        call = [sys.executable, "-m", "nodes.cli", "txn", "call", *options, "--timeout", str(PLENTY_S)]
        for arguments, code, said in [("[7]", 0, "7"), ('["x"]', 1, "TypeError"), ("{", 2, "no JSON")]:
            command = [*call, "account", "a", "deposit", arguments]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PLENTY_S, check=False)
            assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done


def test_the_bench_measures_one_burst_behind_those_that_warm_up(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nodes.cli", "txn", "bench", "ycsb-t", "--transactions", "200", "--nodes", "1"]
    command += ["--accounts", "50", "--warmup", "0.1", "--log-dir", str(tmp_path / "log"), "--json", *PATIENT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PLENTY_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["transactions"], result["invariants"], result["user_aborted"]) == (200, True, 0)
    assert result["warmup_transactions"] and result["warmup_transactions"] % 200 == 0


@pytest.mark.long
def test_the_bench_kills_a_node_while_keys_move_changes_the_program_and_finds_all_the_money(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nodes.cli", "txn", "bench", "ycsb-t", "--zipf", "0.9"]
    # At a rate: a burst may be answered before the keys begin to move.
    command += [
        "--rate",
        "100",
        "--seconds",
        "6",
        "--accounts",
        "50",
        "--warmup",
        "0.1",
        "--repartition",
        "account:6@0.05",
        "--kill",
        "1@0.1",
        "--upgrade",
        "0.5",
        "--log-dir",
        str(tmp_path / "log"),
        "--json",
        *PATIENT,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PLENTY_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["transactions"], result["invariants"], result["user_aborted"]) == (600, True, 0)
    assert result["conflicts"] == result["reruns"] and result["log"] == "embedded"
    assert result["warmup_transactions"] == 10, "a tenth of a second of it"
    (migration,), (upgrade,) = result["migrations"], result["upgrades"]
    assert (migration["operators"], migration["from"], migration["to"]) == (["account"], 4, 6)
    assert migration["downtime_ms"] > 0 and result["during"]["p99"] > 0
    assert upgrade["from"] != upgrade["to"] and upgrade["since_epoch"] > 0


def test_nodes_join_and_leave_while_the_bench_runs_and_all_the_money_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nodes.cli", "txn", "bench", "ycsb-t", "--rate", "200", "--seconds", "5"]
    command += ["--accounts", "500", "--add-node", "0.2", "--remove-node", "0.5", "--remove-node", "0.7"]
    command += ["--log-dir", str(tmp_path / "log"), "--json", *PATIENT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PLENTY_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["transactions"], result["invariants"], result["killed"]) == (1000, True, [])
    assert [(each["change"], each["node"]) for each in result["changes"]] == [
        ("add-node", 2),
        ("remove-node", 0),
        ("remove-node", 1),
    ]
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        given_up = units_given_up(log)  # without node 1 where the run ends before it has handed over
    assert 0 in given_up and not any(given_up.values()), "a node left before others had its units"


def units_given_up(log: Log) -> dict[int, int]:
    """By the number of a node that left while others stayed: the units that nobody owned then.

    Others that are leaving, as at the end of the run, take none.
    """
    (control,) = (topic for topic in log.topics() if topic.endswith("-control"))
    ownership, found = Ownership(1), dict[int, int]()
    for message in map(m.decode_control, log.read(control, 0, 0).values):
        number = ownership.members.get(message.node) if isinstance(message, m.Goodbye) else None
        ownership.apply(message)
        if number is not None and not all(map(ownership.is_stopping, ownership.members)):
            found[number] = list(ownership.owners().values()).count(None)
    return found
