"""Programs that change between two runs: real commands, with modules that are edited as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import TransactionTopics
from tests.integration.processes import PLENTY_S, ROOT, until

JOB = """
import msgspec
from holon import Job, Json, Local, ProcessingFunction, Source
from helpers import share

class Event(msgspec.Struct):
    id: int
    parts: int = 0

class Seen(msgspec.Struct):
    count: int = 0

class Shares(ProcessingFunction[Event]):
    seen = Local(Seen())
    def process(self, event, ctx):
        self.seen.value.count += 1
        ctx.emit({"id": event.id, "share": share(event.parts)})

job = Job("shares", Source("events", Json(Event)), Shares, output="shares")
"""
HELPERS = "def share(parts):\n    return 12 // parts\n"
BANK = """
import msgspec
from transactional import Context, Operator, Program

class Account(msgspec.Struct):
    balance: int = 0

account = Operator("account", partitions=2, state=Account)

@account.register
async def deposit(ctx: Context, amount: int) -> int:
    state = ctx.get(Account())
    state.balance += amount
    ctx.put(state)
    return state.balance

program = Program("edited", [account])
"""
RENAMED = BANK.replace("balance", "saldo")
LONGER = BANK.replace("    balance: int = 0\n", "    balance: int = 0\n    limit: int = 9\n")
RETYPED = BANK.replace("balance: int = 0", 'balance: str = ""').replace("+= amount", "+= str(amount)")
OTHER = BANK.replace("state.balance += amount", "state.balance += 1 * amount")


class App:
    """A folder with modules and a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = f"embedded:{folder / 'log'}"

    def write(self, name: str, source: str) -> None:
        (self.folder / f"{name}.py").write_text(source)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-B", "-m", "nodes.cli", *arguments, "--log-dir", str(self.folder / "log")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=2 * PLENTY_S)
        return process.returncode, out, err

    @contextmanager
    def node(self, source: str, *options: str) -> Iterator[subprocess.Popen[str]]:
        """A node of the bank that has joined."""
        self.write("bank", source)
        process = self.start("txn", "node", "bank:program", "--sequencers", "2", *options)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def deposit(self, amount: int) -> Any:
        with open_log(self.log) as log:
            until(lambda: TransactionTopics("edited").epochs in log.topics(), "the job has begun")
            return TransactionClient(log, "edited").call("account", "a", "deposit", [amount], timeout_s=PLENTY_S)

    def refused(self, source: str, *options: str) -> str:
        """The error of a node that ends at once."""
        self.write("bank", source)
        code, _, err = self.run("txn", "node", "bank:program", "--sequencers", "2", *options)
        assert code == 1, err
        return err

    def doctor(self, source: str) -> tuple[int, dict[str, Any]]:
        self.write("bank", source)
        code, out, _ = self.run("txn", "doctor", "bank:program", "--json")
        return code, json.loads(out)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path)


@pytest.mark.long
def test_a_mended_event_type_or_helper_is_other_code_and_goes_on(app: App) -> None:
    """The failure was of the code before: with the type's default mended, the run goes on where it stopped."""
    app.write("helpers", HELPERS)
    app.write("shares", JOB)
    (app.folder / "events.jsonl").write_text("".join(f'{{"id": {n}}}\n' for n in range(20)))
    assert app.run("log", "append", "events.jsonl", "--topic", "events", "--create")[0] == 0
    code, _, err = app.run("run", "shares:job", "--bounded", "--no-view")
    assert code == 1 and "ZeroDivisionError" in err
    code, _, err = app.run("run", "shares:job", "--bounded", "--no-view", "--accept-code")
    assert code == 1 and "has failed with this code before" in err
    app.write("shares", JOB.replace("parts: int = 0", "parts: int = 3"))
    code, _, err = app.run("run", "shares:job", "--bounded", "--no-view")
    assert code == 1 and "other is shares.Event" in err and "--accept-code" in err
    app.write("shares", JOB)
    app.write("helpers", HELPERS.replace("// parts", "// max(parts, 1)"))
    code, _, err = app.run("run", "shares:job", "--bounded", "--no-view")
    assert code == 1 and "helpers.share" in err
    app.write("shares", JOB.replace("count: int = 0", 'count: str = ""').replace("+= 1", '+= "1"'))
    code, _, err = app.run("run", "shares:job", "--bounded", "--no-view", "--accept-code")
    assert code == 1 and "seen.count: stored is int, the code has str" in err
    app.write("shares", JOB.replace("parts: int = 0", "parts: int = 3"))
    code, out, err = app.run("run", "shares:job", "--bounded", "--no-view", "--accept-code", "--json")
    assert code == 0 and json.loads(out)["outputs"] == 20, err
    code, _, err = app.run("run", "shares:job", "--no-view")
    assert code == 0 and "is finished already" in err  # what was accepted once is on the log


@pytest.mark.long
def test_stored_state_that_does_not_fit_is_refused_by_name(app: App) -> None:
    with app.node(BANK) as node:
        assert app.deposit(7) == 7
        node.terminate()
        assert node.wait(PLENTY_S) == 0
    words = app.refused(RENAMED)
    assert "account.balance: stored is int, the code has 'saldo' instead" in words and "--accept-code" in words
    assert "cannot be decoded" in app.refused(RETYPED, "--accept-code")
    code, found = app.doctor(RENAMED)
    assert code == 1 and [each["place"] for each in found["misfits"]] == ["account.balance"]
    assert "bank.Account" in found["changed"]
    assert app.doctor(BANK)[0] == 0 and app.doctor(LONGER)[0] == 0
    with app.node(LONGER):
        assert app.deposit(1) == 8


@pytest.mark.long
def test_a_node_with_other_code_is_refused_beside_one_that_works(app: App) -> None:
    # No pause of a busy machine is so long: a node that is silent for longer is dead, and its code no obstacle.
    patient = ("-D", "node.failure_timeout_ms=6000")
    with app.node(BANK, *patient) as first:
        assert app.deposit(1) == 1
        words = app.refused(OTHER, *patient)
        assert "work with other code" in words and "bank.deposit" in words
        assert app.deposit(1) == 2 and first.poll() is None
        first.kill()
        first.wait(PLENTY_S)
        with app.node(OTHER, *patient):  # the other one is dead, and still a member
            assert app.deposit(1) == 3
