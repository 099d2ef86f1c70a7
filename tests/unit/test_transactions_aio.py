"""The client for asyncio: a log that goes away and comes back ends it for good as little as a node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from nodes.errors import Unreachable
from nodes.log import Log, LogInterrupted, LogUnavailable, MemoryLog
from nodes.transactions.aio import AsyncTransactionClient
from nodes.transactions.topics import create_topics
from transactional.workloads.catalogue import WORKLOADS


class Away(MemoryLog):
    """A log whose writers have lost their place."""

    def send(self, topic: str, partition: int, values: Sequence[bytes], **rest: Any) -> None:
        raise LogInterrupted("out of order")


class Logs:
    """What is opened, one after the other: a log, or an error."""

    def __init__(self, *logs: Log | LogUnavailable) -> None:
        self.logs = list(logs)
        for log in logs:
            if isinstance(log, MemoryLog):
                create_topics(log, next(iter(WORKLOADS.values())).program, 2)

    def open(self) -> Log:
        log = self.logs.pop(0)
        if isinstance(log, LogUnavailable):
            raise log
        return log


async def unanswered(client: AsyncTransactionClient) -> str:
    with pytest.raises(Unreachable) as told:
        await client.call("account", "a", "read", timeout_s=0.2)
    return str(told.value)


def test_calls_after_an_outage_go_to_a_log_that_was_opened_again() -> None:
    logs = Logs(Away(), LogUnavailable("no broker"), MemoryLog())

    async def run() -> list[str]:
        async with AsyncTransactionClient(logs.open) as client:
            return [await unanswered(client) for _ in range(3)]

    lost, away, back = asyncio.run(run())
    assert "out of order" in lost and "runs it at most once" in lost
    assert "no broker" in away
    assert "no reply to request" in back, "it was sent, and this log has no nodes"


def test_a_log_that_was_never_there_is_named_at_once() -> None:
    async def run() -> None:
        async with AsyncTransactionClient(Logs(LogUnavailable("no broker")).open):
            pass

    with pytest.raises(LogUnavailable, match="no broker"):
        asyncio.run(run())
