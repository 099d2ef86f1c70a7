"""Calls over asyncio and over HTTP: one effect and one reply for each id, and nobody else gets in."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.bank import program
from nodes.errors import SettingsError, UnknownName, Unreachable
from nodes.log import open_log
from nodes.transactions.clients.asyncio_client import AsyncTransactionClient
from nodes.transactions.gateway.openapi import OPENAPI
from nodes.transactions.gateway.serving import serve
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.transactions.test_asyncio_ids import unanswered as unanswered_call
from tests.integration.txn_odd import program as odd
from tests.integration.txn_processes import SEQUENCERS, nodes
from transactional import Aborted
from transactional.requests.requests import since_of

BANK = "examples.bank:program"
ODD = "tests.integration.txn_odd:program"


@contextmanager
def http_gateway(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command on a free port, and its address; without a token unless the options name one."""
    tokens = () if "--token-file" in options else ("--open",)
    command = [sys.executable, "-m", "nodes.cli", "txn", "serve", "--port", "0", "--json", *tokens, *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], process
    finally:
        process.kill()
        process.wait(PLENTY_S)


def ask(url: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Status and decoded answer; no body: GET."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data, named)
    try:
        with urllib.request.urlopen(request, timeout=PLENTY_S) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def deposit(key: str, amount: int, **more: Any) -> dict[str, Any]:
    return {"operator": "account", "key": key, "function": "deposit", "args": [amount], "timeout_s": PLENTY_S, **more}


def test_calls_over_http_run_once_and_say_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with open_log(f"embedded:{folder}") as log:
        create_topics(log, program, SEQUENCERS)
    options = ("--log-dir", str(folder))
    with nodes(1, BANK, *options), http_gateway(*options) as (url, process):
        call = f"{url}/v1/call"
        assert ask(call, deposit("a", 7, id="one")) == (200, {"id": "one", "result": 7})
        assert ask(call, deposit("a", 7, id="one")) == (200, {"id": "one", "result": 7}), "it ran once"
        assert ask(call, deposit("a", 7), Idempotency_Key="one") == (200, {"id": "one", "result": 7})
        with ThreadPoolExecutor(8) as pool:
            at_once = list(pool.map(lambda _: ask(call, deposit("b", 5, id="two")), range(8)))
        assert at_once == [(200, {"id": "two", "result": 5})] * 8
        status, found = ask(call, deposit("a", 8, id="one"))
        assert (status, found["aborted"]) == (422, "RequestIdReused")
        status, found = ask(call, {**deposit("a", 8), "function": "depose"})
        assert (status, found["aborted"]) == (404, "UnknownFunction") and "deposit" in found["arguments"][0]
        pay = {**deposit("a", 0), "function": "transfer", "args": {"to": "b", "amount": 100}}
        status, found = ask(call, pay)
        assert (status, found["aborted"], found["arguments"]) == (409, "InsufficientFunds", ["a", 7])
        for body, expected in [(b"{", 422), ({"operator": 5}, 422), ({**deposit("a", 1), "more": 1}, 422)]:
            assert ask(call, body)[0] == expected
        assert ask(call, deposit("a", 1, timeout_s=1e9))[0] == 422
        assert ask(call, b" " * (1 << 20) + b" ")[0] == 413
        assert ask(call, deposit("a", 1), Content_Type="text/plain")[0] == 415
        assert ask(call, deposit("a", 1), Origin="http://elsewhere.example")[0] == 403
        assert ask(call, deposit("a", 1), Host="elsewhere.example")[0] == 421
        assert ask(call, deposit("a", 0))[1]["result"] == 7, "nothing of that had an effect"
        assert ask(f"{url}/openapi.json", None) == (200, OPENAPI)
        until(lambda: ask(f"{url}/healthz", None) == (200, {"status": "ok", "problems": []}), "it says that it is well")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PLENTY_S) == 0


def test_http_says_what_ids_promise_and_changes_no_value(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with open_log(f"embedded:{folder}") as log:
        create_topics(log, odd, SEQUENCERS)
    options = ("--log-dir", str(folder))
    with http_gateway(*options) as (url, _):
        status, made = ask(f"{url}/v1/id", {})
        assert status == 200 and since_of(made["id"]) == 0
        found = unanswered(f"{url}/v1/call", asking("a", "echo", 1, id="order 17"))
        assert (found["id"], found["since"]) == ("order 17", 0), "it is the first on this log"
        found = unanswered(f"{url}/v1/call", asking("a", "echo", 1))
        assert since_of(found["id"]) == found["since"] <= 1
        with nodes(1, ODD, *options):
            call = f"{url}/v1/call"
            assert ask(call, asking("a", "echo", 1, id="order 17", since=0)) == (200, {"id": "order 17", "result": 1})
            assert ask(call, asking("a", "echo", 5, id=made["id"])) == (200, {"id": made["id"], "result": 5})
            status, found = ask(call, asking("a", "echo", 1, id="x", since=10**9))
            assert (status, found["aborted"]) == (422, "MalformedRequest"), "an offset that the log does not have"
            assert ask(call, asking("a", "echo", 1, id="x", since=-1))[0] == 422
            for name in ("x" * 201, ""):
                assert ask(call, asking("a", "echo", 1, id=name))[0] == 422
            status, found = ask(call, asking("a", "odd", "bytes", id="b"))
            assert status == 406 and "has committed" in found["error"] and "result.odd[0]: bytes" in found["error"]
            assert packed(call, asking("a", "odd", "bytes", id="b")) == {"id": "b", "result": {"odd": [b"x"]}}
            status, found = ask(call, asking("a", "odd", "nan"))
            assert status == 406 and "nan cannot travel in JSON" in found["error"]
            status, found = ask(call, asking("a", "odd", "decimal"))
            assert (status, found["aborted"]) == (422, "BadValue") and "odd[0]: Decimal" in found["arguments"][0]
            status, found = ask(call, asking("a", "fail", "pen"))
            assert (status, found["aborted"], found["fields"]) == (409, "OutOfStock", {"item": "pen", "left": 3})


@pytest.mark.long
def test_the_command_takes_ids_and_since_and_changes_no_value(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with open_log(f"embedded:{folder}") as log:
        create_topics(log, odd, SEQUENCERS)
    options = ("--log-dir", str(folder))
    name = run_command("id", "--json", *options)
    assert name.returncode == 0, name.stderr
    made = json.loads(name.stdout)["id"]
    assert since_of(made) == 0
    late = run_command("call", "odd", "a", "echo", "[1]", "--id", "order 17", "--timeout", "0.1", *options)
    assert late.returncode == 4 and "order 17" in late.stderr and "since=0" in late.stderr
    bad = run_command("call", "odd", "a", "echo", f"[{2**70}]", *options)
    assert bad.returncode == 2 and "odd.echo: [0]: int cannot travel" in bad.stderr
    with nodes(1, ODD, *options):
        options = ("--timeout", str(PLENTY_S), *options)
        for given in ((made,), ("order 17", "--since", "0")):
            again = [
                run_command("call", "odd", "a", "echo", "[1]", "--json", "--id", *given, *options) for _ in range(2)
            ]
            assert [json.loads(each.stdout) for each in again] == [{"result": 1}] * 2
        shown = run_command("call", "odd", "a", "odd", '["bytes"]', *options)
        assert (shown.returncode, shown.stdout.strip()) == (0, "{'odd': [b'x']}")
        shown = run_command("call", "odd", "a", "odd", '["bytes"]', "--json", *options)
        assert shown.returncode == 1 and "the transaction has committed" in shown.stderr
        failed = run_command("call", "odd", "a", "fail", '["pen"]', "--json", *options)
        assert json.loads(failed.stdout)["fields"] == {"item": "pen", "left": 3}


def asking(key: str, function: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"operator": "odd", "key": key, "function": function, "args": [value], "timeout_s": PLENTY_S, **more}


def packed(url: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json", "Accept": "application/msgpack"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=PLENTY_S) as reply:
        return msgspec.msgpack.decode(reply.read())


def unanswered(url: str, body: Any) -> Any:
    """The answer to a call that was sent, while no node runs; one that was not sent in its time is made again."""
    told: list[Any] = []

    def is_sent() -> bool:
        status, found = ask(url, {**body, "timeout_s": 0.1})
        told.append(found)
        assert status == 504 or (status == 503 and "no id was made in 0.1 s" in found["error"]), (status, found)
        assert "since" in found or status == 503 or "was not sent within 0.1 s" in found["error"], found
        return "since" in found

    until(is_sent, "a call is sent within its time")
    return told[-1]


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nodes.cli", "txn", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PLENTY_S, check=False)


def test_a_token_is_asked_for_where_one_is_given(tmp_path: Path) -> None:
    folder, token = tmp_path / "log", tmp_path / "token"
    token.write_text("secret\n")
    with open_log(f"embedded:{folder}") as log:
        create_topics(log, program, SEQUENCERS)
    with http_gateway("--log-dir", str(folder), "--token-file", str(token)) as (url, _):
        assert ask(f"{url}/healthz", None)[0] == 401
        assert ask(f"{url}/healthz", None, Authorization="Bearer wrong")[0] == 401
        until(lambda: ask(f"{url}/healthz", None, Authorization="Bearer secret")[0] == 200, "it says that it is well")
        status, found = ask(f"{url}/v1/call", deposit("a", 1, timeout_s=0.1, id="x"), Authorization="Bearer secret")
        assert (status, found["id"]) == (504, "x"), "no node runs"


def test_other_machines_need_a_token() -> None:
    def never() -> Any:
        raise AssertionError("the log is not opened")

    with pytest.raises(SettingsError, match="--token-file"):
        serve(never, None, host="0.0.0.0", port=0, token=None, names=(), listening=print)
    shown = run_command("serve", "--host", "0.0.0.0", "--port", "0")
    assert shown.returncode == 2 and "--token-file" in shown.stderr, "this user's own token is for this machine"


def test_many_tasks_call_at_once(tmp_path: Path) -> None:
    address = f"embedded:{tmp_path / 'log'}"
    with open_log(address) as log:
        create_topics(log, program, SEQUENCERS)

    async def run() -> None:
        async with AsyncTransactionClient(lambda: open_log(address), "bank") as client:
            calls = [client.call("account", f"a{n % 3}", "deposit", [1], timeout_s=PLENTY_S) for n in range(30)]
            assert sorted(await asyncio.gather(*calls)) == sorted(list(range(1, 11)) * 3)
            same = [
                client.try_call("account", "b", "deposit", [amount], request_id="same", timeout_s=PLENTY_S)
                for amount in (1, 1, 2)
            ]
            assert await asyncio.gather(*same) == [1, 1, Aborted("RequestIdReused", ("same",))]

    with nodes(1, BANK, "--log-dir", str(tmp_path / "log")):
        asyncio.run(run())


def test_who_waits_in_vain_is_told(tmp_path: Path) -> None:
    address = f"embedded:{tmp_path / 'log'}"
    with open_log(address) as log:
        create_topics(log, program, SEQUENCERS)

    async def no_nodes() -> None:
        async with AsyncTransactionClient(lambda: open_log(address)) as client:
            assert "at most once" in str(await unanswered_call(client, "account", "a", "balance"))
            left = asyncio.create_task(client.call("account", "a", "balance", timeout_s=PLENTY_S))
            await asyncio.sleep(0)
        with pytest.raises(Unreachable, match="closed"):
            await left

    async def no_job() -> None:
        async with AsyncTransactionClient(lambda: open_log(address), "bonk"):
            raise AssertionError("there is no such job")

    asyncio.run(no_nodes())
    with pytest.raises(UnknownName, match="bank"):
        asyncio.run(no_job())
