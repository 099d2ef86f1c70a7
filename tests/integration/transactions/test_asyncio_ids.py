"""Ids of requests through asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nodes.errors import Unreachable
from nodes.transactions.clients.asyncio_client import AsyncTransactionClient
from nodes.transactions.clients.client import NoReply
from tests.unit.nodes.transactions.clients.test_request_ids import WINDOW
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional import Aborted
from transactional.requests.requests import (
    partition_of,
    since_of,
)


@pytest.fixture
def stage() -> Stage:
    made = Stage(counters("ids", 2), id_window=WINDOW)
    made.start("a")
    return made


def through_asyncio(stage: Stage, talk: Callable[[AsyncTransactionClient], Awaitable[None]]) -> None:
    """Its client has the log in a thread of its own, where waiting lets the nodes turn."""

    async def run() -> None:
        async with AsyncTransactionClient(lambda: stage.log, "ids") as client:
            await talk(client)

    asyncio.run(run())


def test_the_asyncio_client_does_all_of_that(stage: Stage) -> None:
    async def talk(client: AsyncTransactionClient) -> None:
        name = await client.new_id()
        assert since_of(name) == 0
        call = ("count", "a", "add", [1])
        assert await client.call(*call, request_id=name) == 1
        assert await client.call(*call, request_id=name) == 1
        assert await client.call(*call, request_id="order 17", since=0) == 2
        assert await client.call(*call) == 3
        for partition in range(SEQUENCERS):
            names = [n for k in range(9 * WINDOW) if partition_of(n := f"f{k}", SEQUENCERS) == partition]
            for each in names[: 2 * WINDOW]:
                await client.call("count", "other", "add", [0], request_id=each)
        for again, since in ((name, None), ("order 17", 0)):
            outcome = await client.try_call(*call, request_id=again, since=since)
            assert isinstance(outcome, Aborted) and outcome.kind == "RequestTooOld"
        assert await client.call("count", "a", "add", [0]) == 3

    through_asyncio(stage, talk)


async def unanswered(client: AsyncTransactionClient, *call: Any, request_id: str | None = None) -> NoReply:
    """The error of a call that was sent and is not answered; one that was not sent in its short time is made again."""
    while True:
        with pytest.raises(Unreachable) as raised:
            await client.call(*call, request_id=request_id, timeout_s=0.05)
        if isinstance(raised.value, NoReply):
            return raised.value
        assert "was not sent within 0.05 s, and will not be" in str(raised.value)


def test_the_asyncio_client_says_how_to_ask_again() -> None:
    async def talk(client: AsyncTransactionClient) -> None:
        told = await unanswered(client, "count", "a", "add", [1], request_id="order 17")
        assert (told.request_id, told.since) == ("order 17", 0), "it is the first on this log"
        told = await unanswered(client, "count", "a", "add", [1])
        assert since_of(told.request_id) == told.since <= 1
        with pytest.raises(Unreachable, match=r"not sent within|no reply"):
            await client.call("count", "a", "add", [1], timeout_s=0.0)

    through_asyncio(Stage(counters("ids", 2)), talk)
