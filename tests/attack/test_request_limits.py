"""Ids that are empty or too long, and arguments nested as deep as can be: a named answer at once, to whoever asked."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from nodes.cli.main import run
from nodes.log.memory import MemoryLog
from nodes.runtime.logging_setup import undo_logging
from nodes.transactions.clients.asyncio_client import AsyncTransactionClient
from nodes.transactions.gateway.app import HttpGateway
from tests.integration.processes import PLENTY_S
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional import Aborted, Context, Operator, Program
from transactional.epochs.messages import Reply, reply_message
from transactional.errors import BadArguments
from transactional.requests.requests import RequestAdmission, WireRequest, partition_of
from transactional.state.values import MAX_NESTING, TOO_DEEP, encode

IT = Operator("it", partitions=2)
BAD_IDS = {
    "empty": "",
    "201 bytes": "x" * 201,
    "300 bytes": "x" * 300,
    "51 letters of 4 bytes": "\N{GRINNING FACE}" * 51,
}
NAMED = "a request id has 1 to 200 bytes, not "
DEPTHS = [1, MAX_NESTING - 2, MAX_NESTING - 1, MAX_NESTING, MAX_NESTING + 1, *range(880, 1020, 4), 5_000]


@IT.register
async def echo(ctx: Context, value: Any) -> Any:
    ctx.put(value)
    return value


class LastingLog(MemoryLog):
    """Clients that end leave it open."""

    def close(self) -> None:
        pass


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage(Program("limits", [IT]), new_log=LastingLog)
    made.start("a")
    assert made.call("it", "k", "echo", ["fine"]) == "fine"
    before = ends(made)
    yield made
    assert ends(made) == before, "something was sent"


def ends(stage: Stage) -> list[int]:
    return [stage.log.end_offset(stage.topics.requests, partition) for partition in range(SEQUENCERS)]


# --- ids, in every client ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BAD_IDS.values(), ids=BAD_IDS.keys())
def test_the_client_names_a_bad_id(stage: Stage, name: str) -> None:
    client, asked = stage.client, WireRequest(name, "it", "k", "echo", [1])
    calls: list[Callable[[], object]] = [
        lambda: client.call("it", "k", "echo", [1], request_id=name),
        lambda: client.send("it", "k", "echo", [1], request_id=name),
        lambda: client.send_request(asked),
        lambda: client.send_all([WireRequest("good", "it", "k", "echo", [1]), asked]),
    ]
    for call in calls:
        with pytest.raises(BadArguments, match=NAMED):
            call()


@pytest.mark.parametrize("name", BAD_IDS.values(), ids=BAD_IDS.keys())
def test_the_asyncio_client_names_a_bad_id(stage: Stage, name: str) -> None:
    async def talk() -> None:
        async with AsyncTransactionClient(lambda: stage.log, "limits") as client:
            with pytest.raises(BadArguments, match=NAMED):
                await client.call("it", "k", "echo", [1], request_id=name)

    asyncio.run(talk())


async def posted(door: HttpGateway, body: bytes, *headers: tuple[str, str]) -> tuple[int, Any]:
    """Status and decoded answer, without a server."""
    kept = {"Host": "localhost", "Content-Type": "application/json", **dict(headers)}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/call",
        "query_string": b"",
        "headers": [(key.lower().encode(), value.encode()) for key, value in kept.items()],
    }
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await door(scope, receive, send)
    return messages[0]["status"], msgspec.json.decode(b"".join(each.get("body", b"") for each in messages[1:]))


def over_http(stage: Stage, bodies: list[bytes], *headers: tuple[str, str]) -> list[tuple[int, Any]]:
    async def talk() -> list[tuple[int, Any]]:
        async with AsyncTransactionClient(lambda: stage.log, "limits") as client:
            door = HttpGateway(client, token=None)
            return [await posted(door, body, *headers) for body in bodies]

    return asyncio.run(talk())


def body_of(args: Any, **more: Any) -> bytes:
    return b'{"operator":"it","key":"k","function":"echo","args":%s%s}' % (
        args if isinstance(args, bytes) else json.dumps(args).encode(),
        b"".join(b',"%s":%s' % (key.encode(), json.dumps(value).encode()) for key, value in more.items()),
    )


@pytest.mark.parametrize("name", BAD_IDS.values(), ids=BAD_IDS.keys())
def test_http_names_a_bad_id(stage: Stage, name: str) -> None:
    ((status, answer),) = over_http(stage, [body_of([1], id=name)])
    assert (status, answer["aborted"]) == (422, "BadArguments") and answer["arguments"][0].startswith(NAMED)
    if name.isascii():
        ((status, answer),) = over_http(stage, [body_of([1])], ("Idempotency-Key", name))
        assert (status, answer["aborted"]) == (422, "BadArguments") and answer["arguments"][0].startswith(NAMED)


@pytest.mark.parametrize("name", BAD_IDS.values(), ids=BAD_IDS.keys())
def test_the_command_names_a_bad_id_before_it_opens_a_log(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_log(settings: object) -> None:
        raise AssertionError("a log is opened")

    monkeypatch.setattr("nodes.runtime.log_opening.open_settings_log", no_log)
    try:
        assert run(["txn", "call", "account", "alice", "deposit", "[1]", "--id", name]) == 2
        assert NAMED in capsys.readouterr().err
        assert run(["txn", "call", "it", "k", "echo", "[" * 5_000 + "]" * 5_000]) == 2
        assert "recursion" in capsys.readouterr().err
        assert run(["txn", "call", "it", "k", "echo", json.dumps(nested(MAX_NESTING + 1))]) == 2
        assert TOO_DEEP in capsys.readouterr().err
    finally:
        undo_logging()


# --- nesting ----------------------------------------------------------------------------------------------------------


def deep(stage: Stage) -> Iterator[tuple[int, Any]]:
    """The outcome of each depth; an answer comes for all of them."""
    for depth in DEPTHS:
        try:
            yield depth, stage.client.call("it", "k", "echo", {"value": nested(depth)}, timeout_s=PLENTY_S)
        except BadArguments as error:
            yield depth, error


def test_arguments_are_nested_as_deep_as_allowed_or_refused_by_name() -> None:
    stage = Stage(Program("limits", [IT]))
    stage.start("a")
    for depth, outcome in deep(stage):
        if depth < MAX_NESTING:
            assert outcome == nested(depth)
        else:
            assert isinstance(outcome, BadArguments) and TOO_DEEP in str(outcome)


def test_http_answers_arguments_of_any_depth_by_name() -> None:
    stage = Stage(Program("limits", [IT]))
    stage.start("a")
    bodies = [body_of(b'{"value":%s1%s}' % (b"[" * depth, b"]" * depth)) for depth in DEPTHS]
    for depth, (status, answer) in zip(DEPTHS, over_http(stage, bodies), strict=True):
        assert status == (200 if depth < MAX_NESTING else 422), (depth, answer)
        if status == 200:
            assert answer["result"] == nested(depth)


@IT.register
async def dig(ctx: Context, depth: int) -> Any:
    return nested(depth)


@IT.register
async def keep(ctx: Context, depth: int) -> None:
    ctx.put(nested(depth))


@pytest.mark.parametrize("function", ["dig", "keep"])
def test_results_and_state_are_refused_by_name_too(function: str) -> None:
    stage = Stage(Program("limits", [IT]))
    stage.start("a")
    for depth in DEPTHS:
        outcome = stage.call("it", function, function, [depth])
        if depth > MAX_NESTING:
            assert isinstance(outcome, Aborted) and TOO_DEEP in str(outcome)
        else:
            assert outcome == (nested(depth) if function == "dig" else None)


# --- whoever writes requests himself ----------------------------------------------------------------------------------


def replies_to(records: list[bytes]) -> list[Reply]:
    """A job's replies to records in their request partitions, one for each."""
    stage = Stage(Program("limits", [IT]))
    stage.start("a")
    for record in records:
        stage.log.append(stage.topics.requests, 0, [record])
    found: list[Reply] = []
    for _ in range(500):
        stage.turn()
        found = [
            reply
            for partition in range(IT.partitions)
            for value in stage.log.read(stage.topics.replies, partition, 0).values
            for reply in reply_message(value).replies
        ]
        if len(found) == len(records):
            break
    return sorted(found, key=lambda reply: reply.offset)


def test_who_writes_a_bad_request_himself_finds_a_named_reply_under_his_id() -> None:
    name = next(f"mine {n}" for n in range(99) if partition_of(f"mine {n}", SEQUENCERS) == 0)
    asked = {"id": name, "operator": "it", "key": "k", "function": "echo"}
    too_long = json.dumps(asked | {"id": "x" * 300}).encode()
    head = json.dumps(asked).encode()[:-1]
    records = [too_long, json.dumps(asked | {"id": "y" * 100_000}).encode(), json.dumps(asked | {"id": ""}).encode()]
    records += [head + b',"args":' + b"[" * depth + b"]" * depth + b"}" for depth in (600, 990, 100_000)]
    records += [head + b',"packed":"' + packed + b'"}' for packed in map(packed_of, (600, 990, 100_000))]
    records += [head, head + b',"args":"' + b"[" * 5_000 + b'"}', head + b',"args":["]\\"' + b"[" * 5_000 + b'"]}']
    found = replies_to(records)
    assert [reply.id for reply in found] == ["x" * 300, "", "", *[name] * 9]
    kinds = [reply.failure and reply.failure.kind for reply in found]
    assert kinds == [*["MalformedRequest"] * 6, *["BadValue"] * 3, "MalformedRequest", None, "RequestIdReused"]
    assert all(TOO_DEEP in str(reply.failure) for reply in found[3:9])


def packed_of(depth: int) -> bytes:
    return json.loads(msgspec.json.encode(b"\x91" * depth + b"\x01")).encode()


def test_nodes_agree_on_what_is_too_deep_however_deep_their_own_calls_are() -> None:
    program = Program("limits", [IT])
    records = [
        b'{"id":"a","operator":"it","key":"k","function":"echo",%s}' % args
        for depth in (MAX_NESTING - 50, MAX_NESTING + 3, 700, 900, 970, 990)
        for args in (b'"args":%s1%s' % (b"[" * depth, b"]" * depth), b'"packed":"%s"' % packed_of(depth))
    ]

    def judged(calls: int) -> list[Any]:
        if calls:
            return judged(calls - 1)
        return [RequestAdmission(program, 0, 1, 1000).admit(0, record) for record in records]

    assert judged(0) == judged((sys.getrecursionlimit() - MAX_NESTING) // 2)


def test_wide_requests_are_not_deep() -> None:
    admission = RequestAdmission(Program("limits", [IT]), 0, 1, 1 << 20)
    many = [WireRequest(f"r{n}", "it", "k", "echo", [[], {}, "]" * n]) for n in range(2_000)]
    found = admission.admit(0, msgspec.json.encode(many))
    assert len(found) == len(many) and admission.malformed == 0
    assert encode(nested(MAX_NESTING))
