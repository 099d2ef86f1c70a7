"""The client for asyncio: no error of the log, no bad reply and no large call ends it for good."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from nodes.errors import RunFailed, Unreachable
from nodes.log import Appended, Log, LogError, LogFull, LogInterrupted, LogUnavailable, MemoryLog
from nodes.transactions.clients.asyncio_client import AsyncTransactionClient
from nodes.transactions.clients.client import BadReply, TransactionClient
from nodes.transactions.topics import TransactionTopics, create_topics
from tests.integration.processes import PLENTY_S
from transactional.epochs.messages import Replies, Reply, to_bytes
from transactional.errors import Aborted, BadArguments
from transactional.state.values import encode
from transactional.workloads.catalogue import WORKLOADS

PROGRAM = next(iter(WORKLOADS.values())).program
TOPICS = TransactionTopics(PROGRAM.name)


class Faulty(MemoryLog):
    """A log with an error that all writing raises, and one that looking at its end raises; None: it works."""

    def __init__(self) -> None:
        super().__init__()
        self.writing: LogError | None = None
        self.reading: Exception | None = None
        self.answers = threading.Event()
        self.answers.set()
        create_topics(self, PROGRAM, 2)

    def close(self) -> None:
        """It is opened again."""

    def append(self, topic: str, partition: int, values: Sequence[bytes], **rest: Any) -> Appended:
        if self.writing is not None:
            raise self.writing
        return super().append(topic, partition, values, **rest)

    def end_offset(self, topic: str, partition: int) -> int:
        assert self.answers.wait(PLENTY_S)
        if self.reading is not None:
            raise self.reading
        return super().end_offset(topic, partition)


class Opening:
    """Opens one log again and again, or raises ``failure``."""

    def __init__(self, log: Faulty) -> None:
        self.log = log
        self.failure: Exception | None = None
        self.times = 0

    def __call__(self) -> Log:
        self.times += 1
        if self.failure is not None:
            raise self.failure
        return self.log


def with_client(run: Callable[[AsyncTransactionClient, Opening], Awaitable[None]]) -> None:
    """``run`` with a client of a log that works."""

    async def main() -> None:
        opening = Opening(Faulty())
        async with AsyncTransactionClient(opening) as client:
            assert await client.check(PLENTY_S) is None
            await run(client, opening)

    asyncio.run(main())


async def ask(client: AsyncTransactionClient) -> str:
    """The error of a call that is not answered."""
    with pytest.raises(Unreachable) as told:
        await client.call("account", "a", "read", timeout_s=PLENTY_S)
    return str(told.value)


async def works_again(client: AsyncTransactionClient, log: Log) -> None:
    while await client.check(PLENTY_S) is not None:
        await asyncio.sleep(0.01)
    again = call_of(client, "again")
    await sent(log, "again")
    answer(log, "again", encode(7))
    assert await again == 7


def call_of(client: AsyncTransactionClient, name: str) -> asyncio.Task[Any]:
    return asyncio.create_task(client.call("account", "a", "read", request_id=name, timeout_s=PLENTY_S))


async def sent(log: Log, *names: str) -> None:
    """Until these requests are on the log: only then does their client look for their replies."""
    missing = {f'"{name}"'.encode() for name in names}
    while missing:
        await asyncio.sleep(0.01)
        values = [value for number in range(2) for value in log.read(TOPICS.requests, number, 0).values]
        missing = {name for name in missing if not any(name in value for value in values)}


def answer(log: Log, name: str, result: bytes | None, failure: Aborted | None = None) -> None:
    log.append(TOPICS.replies, 0, [to_bytes(Replies(1, 0, [Reply(name, 0, 0, 0, 0, result, failure)]))])


@pytest.mark.parametrize(
    "error", [LogFull("no space left"), LogInterrupted("out of order"), LogUnavailable("no broker")], ids=str
)
def test_calls_after_a_failed_write_go_to_the_log_again(error: LogError) -> None:
    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        opening.log.writing = error
        told = await ask(client)
        assert str(error) in told and "runs it at most once" in told
        before = opening.times
        while opening.times < before + 2:
            assert str(error) in str(await client.check(PLENTY_S)), "nobody calls, and health still tells the truth"
            await asyncio.sleep(0.01)
        assert str(error) in await ask(client)
        opening.log.writing = None
        await works_again(client, opening.log)

    with_client(run)


@pytest.mark.parametrize("error", [LogUnavailable("no broker"), Unreachable("no log"), OSError("no such folder")])
def test_a_log_that_cannot_be_opened_for_a_while_is_opened_later(error: Exception) -> None:
    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        opening.failure, opening.log.writing = error, LogInterrupted("out of order")
        assert "out of order" in await ask(client)
        while str(error) not in str(await client.check(PLENTY_S)):
            await asyncio.sleep(0.01)
        assert str(error) in await ask(client)
        with pytest.raises(Unreachable, match=str(error)):
            await client.new_id(PLENTY_S)
        opening.failure = opening.log.writing = None
        await works_again(client, opening.log)

    with_client(run)


def test_a_log_that_fails_while_it_is_looked_at_is_a_problem_until_it_works() -> None:
    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        opening.log.reading = LogUnavailable("no broker")
        assert await client.check(PLENTY_S) == "no broker"
        with pytest.raises(Unreachable, match="no broker"):
            await client.new_id(PLENTY_S)
        opening.log.reading = None
        await works_again(client, opening.log)

    with_client(run)


@pytest.mark.parametrize("result", [b"\xc1", b"\x81", b"\x92" * 5000, None], ids=["no byte", "cut off", "deep", "none"])
def test_a_reply_that_cannot_be_decoded_concerns_its_caller_alone(result: bytes | None) -> None:
    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        bad, good = call_of(client, "bad"), call_of(client, "good")
        await sent(opening.log, "bad", "good")
        answer(opening.log, "bad", result)
        answer(opening.log, "good", encode(7))
        with pytest.raises(BadReply, match=r"replies\[0\] at offset 0") as told:
            await bad
        assert told.value.request_id == "bad"
        assert await good == 7
        assert await client.check(PLENTY_S) is None

    with_client(run)


def test_the_plain_client_names_a_reply_that_cannot_be_decoded() -> None:
    log = Faulty()
    client = TransactionClient(log)
    names = [client.send("account", "a", "read") for _ in range(3)]
    for name, result in zip(names, (b"\xc1", encode(7), b"\xc1"), strict=True):
        answer(log, name, result)
    client.poll()
    with pytest.raises(BadReply, match="has committed, cannot be decoded"):
        client.take(names[0])
    found = dict(client.take_all())
    assert found[names[1]] == 7 and isinstance(found[names[2]], BadReply)


def test_a_call_that_no_record_can_hold_is_refused_alone() -> None:
    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        other = call_of(client, "other")
        with pytest.raises(BadArguments, match="too large"):
            await client.call("account", "a", "read", ["x" * (17 << 20)], timeout_s=PLENTY_S)
        await sent(opening.log, "other")
        answer(opening.log, "other", encode(7))
        assert await other == 7
        assert await client.check(PLENTY_S) is None

    with_client(run)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_nobody_expected_is_told_to_all_and_stays_a_problem() -> None:
    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        opening.log.reading = ZeroDivisionError("never")
        assert "ZeroDivisionError" in str(await client.check(PLENTY_S))
        with pytest.raises((RunFailed, Unreachable), match="ZeroDivisionError"):
            await client.call("account", "a", "read", timeout_s=PLENTY_S)
        assert "ZeroDivisionError" in str(await client.check(PLENTY_S))

    with_client(run)


def test_a_log_that_was_never_there_is_named_at_once() -> None:
    async def run() -> None:
        opening = Opening(Faulty())
        opening.failure = LogUnavailable("no broker")
        async with AsyncTransactionClient(opening):
            pass

    with pytest.raises(LogUnavailable, match="no broker"):
        asyncio.run(run())


def test_a_client_that_stood_still_does_not_blame_the_log_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's clock jumps by a minute while it waits, as where the process is stopped and continued."""

    async def run(client: AsyncTransactionClient, opening: Opening) -> None:
        loop = asyncio.get_running_loop()
        clock = loop.time
        opening.log.answers.clear()
        check = asyncio.create_task(client.check(timeout_s=30.0))
        await asyncio.sleep(0)
        monkeypatch.setattr(loop, "time", lambda: clock() + 60.0)
        for _ in range(100):
            await asyncio.sleep(0)
        done_early = check.done()
        opening.log.answers.set()
        assert not done_early
        assert await check is None

    with_client(run)
