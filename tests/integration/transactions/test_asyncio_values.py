"""Values through threads: asyncio, and external calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nodes.transactions.clients.asyncio_client import AsyncTransactionClient
from tests.unit.nodes.transactions.clients.test_values import (
    BAD_CALLS,
    PROGRAM,
    REFUSED,
    WithOutside,
)
from tests.unit.txn_stage import Stage
from transactional import Aborted, BadArguments, Serial


@pytest.fixture(scope="module")
def stage() -> Stage:
    made = WithOutside(PROGRAM)
    made.start("a")
    return made


def test_the_asyncio_client_refuses_alike_and_goes_on() -> None:
    stage, sent = Stage(PROGRAM), []
    stage.log.send = lambda *given: sent.append(given)  # type: ignore[method-assign]

    async def run() -> None:
        async with AsyncTransactionClient(lambda: stage.log, "values") as client:
            for value, why in REFUSED.values():
                with pytest.raises(BadArguments, match=why):
                    await client.call("it", "a", "echo", value)
            for given, why in BAD_CALLS.values():
                asked: dict[str, Any] = {"operator": "it", "key": "a", "function": "echo", "args": [1], **given}
                with pytest.raises(BadArguments, match=why):
                    await client.call(**asked)
            assert (await client.new_id()).startswith("h0-"), "its thread lives"

    asyncio.run(run())
    assert not sent


SAID: dict[str, tuple[str, list[Any], str, str]] = {
    "an argument of a call": ("ask_with", ["set"], "BadArguments", "other.echo: [0]: set cannot travel"),
    "another": ("ask_with", ["decimal"], "BadArguments", "other.echo: [0]: Decimal cannot travel"),
    "an argument of a queued call": ("queue_with_set", [], "BadArguments", "other.echo: [0]: set cannot travel"),
    "a result": ("give_decimal", [], "BadValue", "a result price: Decimal cannot travel"),
    "state": ("store_set", [], "BadValue", "the state of it 'a' seen: set cannot travel"),
    "an argument of an external": ("ask_outside", ["argument"], "BadArguments", "outside: [0]: set cannot travel"),
    "a result of an external": ("ask_outside", ["result"], "BadValue", "the result of outside set cannot travel"),
}


@pytest.mark.parametrize("name", SAID)
def test_functions_are_told_what_cannot_travel(stage: Stage, name: str) -> None:
    function, args, kind, why = SAID[name]
    for outcome in (stage.call("it", "a", function, args), Serial(PROGRAM).call("it", "a", function, args)):
        assert isinstance(outcome, Aborted)
        assert outcome.kind == kind and why in outcome.arguments[0]


def test_a_transaction_goes_on_after_a_call_to_the_outside_with_arguments_that_json_has_not(stage: Stage) -> None:
    assert stage.call("it", "a", "ask_outside", ["bytes"]) == b"x"
    assert Serial(PROGRAM).call("it", "a", "ask_outside", ["bytes"]) == b"x"
    (found,) = stage.call("it", "a", "ask_outside", ["nan"])
    assert found != found
