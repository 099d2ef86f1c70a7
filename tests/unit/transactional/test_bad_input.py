"""Input that should never reach a job: each gets a reply that names it, or is counted, and the nodes work on."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional import Aborted, BadArguments, CallFailed, Context, Limits, Operator, Program
from transactional.requests.requests import partition_of

LIMITS = Limits(max_calls=200, max_depth=20, max_value_bytes=2_000, max_bytes=50_000, max_steps=300)


# Functions as one should not write them, and a counter.
it = Operator("it", partitions=3)


@it.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put(ctx.get(0) + amount)
    return ctx.get()


@it.register
async def round_and_round(ctx: Context, others: list[str]) -> None:
    await ctx.call(it, others[0], round_and_round, [[*others[1:], ctx.key]])


@it.register
async def chase(ctx: Context, others: list[str]) -> None:
    ctx.call_async(it, others[0], chase, [[*others[1:], ctx.key]])


@it.register
async def flood(ctx: Context, to: str, queued: bool) -> None:
    while True:
        if queued:
            ctx.call_async(it, to, add, [1])
        else:
            await ctx.call(it, to, add, [1])


@it.register
async def fail_beside(ctx: Context, function: str, *args: Any) -> None:
    ctx.call_async(it, ctx.key, function, list(args))
    raise ValueError("and more is to come")


@it.register
async def echo(ctx: Context, text: str, times: int) -> str:
    return text * times


@it.register
async def tell(ctx: Context, to: str, size: int, times: int, queued: bool) -> None:
    """Few calls, each of them large."""
    for _ in range(150):
        if queued:
            ctx.call_async(it, to, echo, ["x" * size, times])
        else:
            await ctx.call(it, to, echo, ["x" * size, times])


@it.register
async def fill(ctx: Context) -> None:
    for _ in range(150):
        ctx.put("x" * 1_000)


@it.register
async def watch(ctx: Context) -> None:
    while not ctx.get():
        pass


@it.register
async def insist(ctx: Context) -> None:
    while True:
        ctx.put(1)


@it.register
async def hoard(ctx: Context) -> None:
    ctx.put("x" * 5_000)


@it.register
async def boast(ctx: Context) -> str:
    return "x" * 5_000


@it.register
async def shout(ctx: Context) -> None:
    await ctx.call(it, "b", add, ["x" * 5_000])


@it.register
async def misspell(ctx: Context, operator: str, function: str) -> None:
    await ctx.call(operator, "b", function, [1])


@it.register
async def leak(ctx: Context) -> Any:
    return object()


class Own(BaseException):
    """An exception that no ``except Exception`` catches."""


class Unsaid(Exception):
    """Neither its arguments nor its text can be had."""

    args = property(lambda self: 1 / 0)  # type: ignore[assignment]

    def __str__(self) -> str:
        raise ValueError("no text")


class Picky(Exception):
    """Declared, and not to be made from what it was given."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{len(text)}")
        if len(text) == 1:
            raise ValueError("too short")


RAISED: dict[str, BaseException] = {
    "long": ValueError("x" * 40_000_000),
    "many": ValueError(*range(100_000)),
    "nan": ValueError(float("nan"), np.float64("nan"), np.float64(2), np.str_("s"), 2**70),
    "surrogate": ValueError("\ud800", b"x" * 5_000_000),
    "named": type("L" * 3_000_000, (Exception,), {})(),
    "cancelled": asyncio.CancelledError("it"),
    "interrupted": KeyboardInterrupt("it"),
    "closed": GeneratorExit("it"),
    "own": Own("it"),
    "unsaid": Unsaid("it"),
    "failed": CallFailed("it"),  # type: ignore[arg-type]
    "picky": Picky("fives"),
}


@it.register
async def rage(ctx: Context, what: str) -> None:
    raise RAISED[what]


@it.register
async def pass_on(ctx: Context, what: str) -> None:
    await ctx.call(it, "b", rage, [what])


@it.register
async def misname(ctx: Context, times: int) -> None:
    await ctx.call(it, "\ud800" * times, add, [1])


@it.register
async def leave(ctx: Context) -> None:
    raise SystemExit(3)


program = Program("bad", [it], errors=[Picky], limits=LIMITS)


@pytest.fixture(scope="module")
def stage() -> Stage:
    """Two nodes that all tests here share: what one test does must not hurt the next."""
    made = Stage(program)
    made.start("one"), made.start("other")
    made.turn(200)
    return made


CALLS: dict[str, tuple[str, Any, str, str]] = {
    "an unknown function": ("adx", [1], "UnknownFunction", "add"),
    "too few arguments": ("add", [], "BadArguments", "amount"),
    "too many arguments": ("add", [1, 2], "BadArguments", "positional"),
    "a name that is no argument": ("add", {"number": 1}, "BadArguments", "number"),
    "an argument of another type": ("add", ["one"], "TypeError", "int"),
    "arguments that are too large": ("add", ["x" * 5_000], "BadValue", "2000 are allowed"),
    "a cycle of calls without end": ("round_and_round", [["b", "c"]], "LimitExceeded", "deep"),
    "a cycle of queued calls without end": ("chase", [["b", "c"]], "LimitExceeded", ""),
    "a flood of calls to another entity": ("flood", ["b", False], "LimitExceeded", "200 calls"),
    "a flood of calls to itself": ("flood", ["a", False], "LimitExceeded", "200 calls"),
    "a flood of queued calls": ("flood", ["b", True], "LimitExceeded", "200 calls"),
    "a flood of calls beside an exception": ("fail_beside", ["flood", "a", True], "LimitExceeded", "200 calls"),
    "a flood of bytes beside an exception": ("fail_beside", ["fill"], "ValueError", "more is to come"),
    "large arguments of calls": ("tell", ["b", 1_000, 0, False], "LimitExceeded", "50000 bytes"),
    "large arguments of queued calls": ("tell", ["b", 1_000, 0, True], "LimitExceeded", "50000 bytes"),
    "large results of another entity": ("tell", ["b", 1, 1_000, False], "LimitExceeded", "50000 bytes"),
    "large results of its own": ("tell", ["a", 1, 1_000, False], "LimitExceeded", "50000 bytes"),
    "large writes": ("fill", [], "LimitExceeded", "50000 bytes"),
    "a loop that waits for its own state": ("watch", [], "LimitExceeded", "300 reads and writes"),
    "a loop that writes without end": ("insist", [], "LimitExceeded", "300 reads and writes"),
    "state that is too large": ("hoard", [], "BadValue", "the state of it 'a' has 5003 bytes"),
    "a result that is too large": ("boast", [], "BadValue", "a result has 5003 bytes"),
    "an argument of a call that is too large": ("shout", [], "BadValue", "an argument of it.add"),
    "a call of an unknown operator": ("misspell", ["its", "add"], "UnknownFunction", "its"),
    "a call of an unknown function": ("misspell", ["it", "adx"], "UnknownFunction", "add"),
    "a result that cannot be encoded": ("leak", [], "BadValue", "cannot be stored or sent"),
    "an exception with a long text": ("rage", ["long"], "ValueError", "xxx..."),
    "an exception with many arguments": ("rage", ["many"], "ValueError", "0 1 2"),
    "an exception with odd numbers": ("rage", ["nan"], "ValueError", "nan nan 2.0 s int"),
    "an exception with what is no text": ("rage", ["surrogate"], "ValueError", "?"),
    "an exception with a long name": ("rage", ["named"], "L" * 2_000 + "...", ""),
    "what asyncio cancels by": ("rage", ["cancelled"], "CancelledError", "it"),
    "what the keyboard interrupts by": ("rage", ["interrupted"], "KeyboardInterrupt", "it"),
    "what generators are closed by": ("rage", ["closed"], "GeneratorExit", "it"),
    "what is no Exception": ("rage", ["own"], "Own", "it"),
    "what is no Exception, through a caller": ("pass_on", ["own"], "Own", "it"),
    "an exception that says nothing": ("rage", ["unsaid"], "Unsaid", "it"),
    "an exception of the caller's kind without a cause": ("rage", ["failed"], "CallFailed", "it"),
    "an exception that cannot be made again": ("pass_on", ["picky"], "Picky", "5"),
    "a key that is no text": ("misname", [1], "BadArguments", "no Unicode text"),
    "a function that wants to end the process": ("leave", [], "SystemExit", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(CALLS))
def test_a_bad_call_is_answered_by_name_and_has_no_effect(stage: Stage, what: str) -> None:
    function, args, kind, said = CALLS[what]
    before = [stage.call("it", key, "add", [0]) for key in "abc"]
    outcome = stage.call("it", "a", function, args)
    assert isinstance(outcome, Aborted) and outcome.kind == kind, outcome
    assert said in " ".join(map(str, outcome.arguments))
    assert [stage.call("it", key, "add", [0]) for key in "abc"] == before


def test_an_unknown_operator_is_answered_with_the_nearest_name(stage: Stage) -> None:
    outcome = stage.call("its", "a", "add", [1])
    assert outcome == Aborted("UnknownFunction", ("no operator 'its'; nearest: it",))


def test_an_id_that_is_used_for_another_call_is_refused(stage: Stage) -> None:
    first = stage.call("it", "reused", "add", [1], request_id="reused")
    assert stage.call("it", "reused", "add", [2], request_id="reused") == Aborted("RequestIdReused", ("reused",))
    assert stage.call("it", "other", "add", [1], request_id="reused") == Aborted("RequestIdReused", ("reused",))
    assert stage.call("it", "reused", "add", [1], request_id="reused") == first
    assert stage.call("it", "reused", "add", [0]) == first


BYTES = {
    "nothing": b"",
    "text": b"hello",
    "no message": msgspec.msgpack.encode({"a": 1}),
    "an unknown kind": msgspec.msgpack.encode(["spell", 1, 2, 3]),
    "a deep list": b"\x91" * 100_000,
    "a list that claims to be long": b"\xdd\xff\xff\xff\xff",
    "half a cut": msgspec.msgpack.encode(["cut", 0, 1]),
    "a cut by nobody": msgspec.msgpack.encode(["cut", 77, 1, 0, 1, 1, 0, []]),
    "a cut of the past": msgspec.msgpack.encode(["cut", 0, -5, -9, -8, 1, 0, []]),
    "a barrier by nobody": msgspec.msgpack.encode(["mark", 77, 1, 1, [], None]),
    "numbers of another size": msgspec.msgpack.encode(["mark", 2**63, 2**64 - 1, 1, [], None]),
}


@pytest.mark.parametrize("topic", ["epochs", "calls", "replies", "control", "heartbeats"])
def test_records_that_are_none_are_passed_over_on_internal_topics(stage: Stage, topic: str) -> None:
    draw = Random(3)
    name = getattr(stage.topics, topic)
    noise = [*BYTES.values(), *(draw.randbytes(draw.randrange(1, 60)) for _ in range(200))]
    for partition in range(stage.log.partitions(name)):
        stage.log.append(name, partition, noise)
    before = stage.call("it", "noise", "add", [1])
    assert stage.call("it", "noise", "add", [1]) == before + 1


def test_requests_that_are_none_are_told_so(stage: Stage) -> None:
    draw = Random(5)
    garbage = [b"", b"{", b"[" * 100_000, b'{"id": 5}', b'{"id": "x", "operator": "it"}', b"\xff\xfe"]
    for partition in range(SEQUENCERS):
        stage.log.append(stage.topics.requests, partition, garbage)
        stage.log.append(stage.topics.requests, partition, [draw.randbytes(20) for _ in range(50)])
    before = stage.call("it", "garbage", "add", [1])
    assert stage.call("it", "garbage", "add", [1]) == before + 1


def test_a_key_that_is_no_text_and_an_id_that_is_too_long_are_refused(stage: Stage) -> None:
    record = msgspec.json.encode({"id": "number", "operator": "it", "key": 5, "function": "add", "args": [1]})
    stage.log.append(stage.topics.requests, partition_of("number", SEQUENCERS), [record])
    long = "x" * 500
    with pytest.raises(BadArguments, match="1 to 200 bytes"):
        stage.client.send("it", "a", "add", [100], request_id=long)
    record = msgspec.json.encode({"id": long, "operator": "it", "key": "a", "function": "add", "args": [100]})
    stage.client.expect([long])  # as another client would wait for it
    stage.log.append(stage.topics.requests, partition_of(long, SEQUENCERS), [record])
    before = stage.call("it", "long", "add", [1])
    stage.turn(20)
    assert stage.call("it", "long", "add", [0]) == before
    refused = stage.client.take(long)
    assert refused.kind == "MalformedRequest" and "not 500" in str(refused), "who asked is told"
