"""`holon txn serve` as a process: a full disk and a forged reply do not end it, and other users have no token."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.bank import program
from nodes.errors import SettingsError
from nodes.log import Log, open_log
from nodes.transactions.gateway.token_file import given_token, own_token, shared_token
from nodes.transactions.topics import TransactionTopics, create_topics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.transactions.test_http_gateway import ask, deposit, http_gateway
from transactional.epochs.messages import Replies, Reply, to_bytes
from transactional.state.values import encode

TOPICS = TransactionTopics(program.name)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, 2)
        yield log


def asked(log: Log) -> int:
    return sum(log.end_offset(TOPICS.requests, partition) for partition in range(2))


@pytest.mark.usefixtures("no_bytecode")
def test_a_full_disk_that_is_freed_again_ends_no_gateway(log: Log, tmp_path: Path) -> None:
    with http_gateway("--log-dir", str(tmp_path / "log")) as (url, process):
        call, health = f"{url}/v1/call", f"{url}/healthz"
        until(lambda: ask(health, None) == (200, {"status": "ok", "problems": []}), "it says that it is well")
        heads = 2 * resource.getpagesize()  # of a file: they name its newest state, and a full disk has them already
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (heads, resource.RLIM_INFINITY))
        statuses = [ask(call, deposit("a", 1, id="x")) for _ in range(2)]
        assert [(status, found["id"]) for status, found in statuses] == [(504, "x")] * 2
        assert all("no space left" in found["error"] for _, found in statuses)
        status, found = ask(health, None)
        assert status == 503 and "no space left" in found["problems"][0]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: ask(health, None)[0] == 200, "the gateway notices that there is space")
        before, answers = asked(log), list[tuple[int, Any]]()
        calling = threading.Thread(target=lambda: answers.append(ask(call, deposit("a", 1, id="x"))))
        calling.start()
        until(lambda: asked(log) == before + 1, "the request is on the log")
        reply_to_all(log, "x", 7)
        calling.join(PLENTY_S)
        assert answers == [(200, {"id": "x", "result": 7})] and asked(log) == before + 1


def test_a_forged_reply_ends_no_gateway(log: Log, tmp_path: Path) -> None:
    answers: dict[str, tuple[int, Any]] = {}
    with http_gateway("--log-dir", str(tmp_path / "log")) as (url, _):

        def call(name: str) -> None:
            answers[name] = ask(f"{url}/v1/call", deposit("a", 1, id=name))

        for name, result in (("bad", b"\xc1"), ("good", encode(7))):
            before, calling = asked(log), threading.Thread(target=call, args=(name,))
            calling.start()
            until(lambda before=before: asked(log) == before + 1, "the request is on the log")
            log.append(
                TOPICS.replies, 0, [b"garbage", to_bytes(Replies(1, 0, [Reply(name, 0, 0, 0, 0, result, None)]))]
            )
            calling.join(PLENTY_S)
        until(lambda: ask(f"{url}/healthz", None)[0] == 200, "it says that it is well")
    status, found = answers["bad"]
    assert status == 502 and found["id"] == "bad" and "cannot be decoded" in found["error"]
    assert answers["good"] == (200, {"id": "good", "result": 7})


@contextmanager
def serving(state: Path, *options: str) -> Iterator[dict[str, Any]]:
    """The command for a user whose files are in ``state``; gives what it prints."""
    command = [sys.executable, "-m", "nodes.cli", "txn", "serve", "--port", "0", "--json", *options]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait(PLENTY_S)


def call(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nodes.cli", "txn", "call", "account", "a", "deposit", "[1]", *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * PLENTY_S, check=False
    )


def reply_to_all(log: Log, name: str, result: Any) -> None:
    log.append(TOPICS.replies, 0, [to_bytes(Replies(1, 0, [Reply(name, 0, 0, 0, 0, encode(result), None)]))])


def test_only_who_can_read_the_shared_token_calls(log: Log, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    with serving(mine, "--log-dir", str(tmp_path / "log")) as said:
        url, file = said["url"], Path(said["token_file"])
        assert file == mine / "holon" / "gateway.token" and stat.S_IMODE(file.stat().st_mode) == 0o600
        token = file.read_text().strip()
        assert ask(f"{url}/healthz", None)[0] == 401
        assert ask(f"{url}/v1/call", deposit("a", 1))[0] == 401
        assert asked(log) == 0, "nobody with a token has called"
        until(lambda: ask(f"{url}/healthz", None, Authorization=f"Bearer {token}")[0] == 200, "it says that it is well")
        stranger = call(other, "--gateway", url)
        assert stranger.returncode == 1 and "401" in stranger.stderr and asked(log) == 0
        found: list[subprocess.CompletedProcess[str]] = []
        words = ("--gateway", url, "--timeout", str(PLENTY_S), "--id", "x", "--json")
        calling = threading.Thread(target=lambda: found.append(call(mine, *words)))
        calling.start()
        until(lambda: asked(log) == 1, "the call is on the log")
        reply_to_all(log, "x", 5)
        calling.join(PLENTY_S)
        assert (found[0].returncode, json.loads(found[0].stdout)) == (0, {"result": 5}), found[0].stderr
        late = found[0]

        def is_late() -> bool:
            """A call that was not even sent in its time is made again."""
            nonlocal late
            late = call(mine, "--gateway", url, "--timeout", "0.2", "--id", "y")
            assert late.returncode == 4
            assert "y and since=" in late.stderr or "was not sent within 0.2 s" in late.stderr, late.stderr
            return "y and since=" in late.stderr

        until(is_late, "a call is sent within its time")
        assert token not in late.stderr + stranger.stderr + found[0].stderr
    late = call(mine, "--gateway", url)
    assert late.returncode == 4 and "does `holon txn serve` run?" in late.stderr


def test_open_asks_for_no_token(log: Log, tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--open", "--log-dir", str(tmp_path / "log")) as said:
        assert said["token_file"] is None and not (tmp_path / "state").exists()
        until(lambda: ask(f"{said['url']}/healthz", None)[0] == 200, "it says that it is well")


def spoil(path: Path, how: str) -> None:
    path.parent.mkdir(parents=True)
    match how:
        case "others can read it":
            path.write_text("secret\n")
            path.chmod(0o644)
        case "a link":
            (path.parent / "elsewhere").write_text("secret\n")
            (path.parent / "elsewhere").chmod(0o600)
            path.symlink_to(path.parent / "elsewhere")
        case "a FIFO":
            os.mkfifo(path, 0o600)
        case "a folder":
            path.mkdir(mode=0o700)
        case "empty" | "too long" | "two lines":
            path.write_text({"empty": "\n", "too long": "x" * 5000, "two lines": "a\nb\n"}[how])
            path.chmod(0o600)


@pytest.mark.parametrize(
    "how", ["others can read it", "a link", "a FIFO", "a folder", "empty", "too long", "two lines"]
)
def test_a_token_file_that_is_no_secret_is_refused(how: str, tmp_path: Path) -> None:
    path = tmp_path / "holon" / "gateway.token"
    spoil(path, how)
    with pytest.raises(SettingsError, match=str(path)):
        shared_token(path)


def test_all_who_start_at_once_share_one_token(tmp_path: Path) -> None:
    path = tmp_path / "holon" / "gateway.token"
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(shared_token(path))) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PLENTY_S)
    assert len(found) == 16 and set(found) == {own_token(path)} and len(found[0]) >= 43
    assert os.listdir(path.parent) == ["gateway.token"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("serve", "--open", "--token-file", "x"), "give one of the two"),
        (("serve", "--token-file", "/nowhere/token"), "is no file"),
        (("call", "a", "b", "c", "--token-file", "x"), "--gateway URL"),
        (("call", "a", "b", "c", "--gateway", "ftp://x"), "no address"),
        (("call", "a", "b", "c", "--gateway", "http://127.0.0.1:1", "--id", ""), "1 to 200 bytes, not 0"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: Sequence[str], told: str) -> None:
    command = [sys.executable, "-m", "nodes.cli", "txn", *options]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PLENTY_S, check=False)
    assert shown.returncode == 2 and told in shown.stderr


def test_a_token_file_of_the_user_s_own_may_be_readable(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o644)
    assert given_token(tmp_path / "token") == "secret"
