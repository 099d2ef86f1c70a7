"""A log of a transactional job that is run again: what is not deterministic is found by its function and request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from nodes.log import Log, open_log
from nodes.transactions.replay.comparison import Parting, compared
from nodes.transactions.replay.log_run import LogReplay
from nodes.transactions.topics import TransactionTopics, create_topics
from tests.unit.transactional.test_protocol import Alone
from transactional import Context, Operator, Program
from transactional.epochs.messages import Cut, MessageBatch, epoch_messages, to_bytes
from transactional.requests.requests import WireRequest, request_record


def program_with(draw: Callable[[], float]) -> Program:
    """``keep`` writes what is drawn, ``give`` replies it, ``pass_on`` sends it to ``add`` of another partition."""
    dice = Operator("dice", partitions=2)

    @dice.register
    async def add(ctx: Context, amount: float) -> float:
        ctx.put((ctx.get() or 0) + amount)
        return ctx.get()

    @dice.register
    async def keep(ctx: Context) -> None:
        ctx.put(draw())

    @dice.register
    async def give(ctx: Context) -> float:
        return draw()

    @dice.register
    async def ask(ctx: Context) -> float:
        return await ctx.call("dice", "another", "give")

    @dice.register
    async def pass_on(ctx: Context) -> None:
        for number in range(8):
            ctx.call_async("dice", f"to {number}", "add", [draw()])

    return Program("dice", [dice])


def cut_early(values: list[bytes]) -> list[bytes]:
    """The epochs topic, where each epoch is cut before the one before it is over."""
    messages = [message for value in values for message in epoch_messages(value)]
    return [to_bytes(each) for each in sorted(messages, key=lambda each: 2 * each.epoch - 3 * isinstance(each, Cut))]


def in_one_record(values: list[bytes]) -> list[bytes]:
    """The epochs topic, where one record ends all epochs."""
    return [to_bytes(MessageBatch([to_bytes(message) for value in values for message in epoch_messages(value)]))]


def written(
    path: Path, program: Program, function: str, rewrite: Callable[[list[bytes]], list[bytes]] = list[bytes]
) -> Log:
    """A log with honest requests, one of ``function``, and honest ones."""
    alone, asked = Alone(program), [("r0", "k0", "add"), ("r1", "k1", "add"), ("r2", "k2", "add")]
    asked += [("evil", "bad", function), ("last", "k0", "add")]
    requests = [
        request_record(WireRequest(name, "dice", key, called, [1] if called == "add" else None))
        for name, key, called in asked
    ]
    for request in requests:
        alone.send([request])
    log = open_log(f"embedded:{path}")
    create_topics(log, program, 1)
    topics = TransactionTopics(program.name)
    log.append(topics.requests, 0, requests)
    log.append(topics.epochs, 0, rewrite(alone.epochs))
    for partition in range(program.partitions):
        log.append(topics.calls, partition, alone.calls[partition])
        log.append(topics.commits, partition, alone.commits[partition])
        log.append(topics.replies, partition, alone.replies_of[partition])
    return log


def parting(log: Log, program: Program, others: Program | None = None) -> tuple[int, Parting | None]:
    """How many epochs were the same, and where the log and two runs part."""
    runs = [list(LogReplay(log, each, 1, None).run()) for each in (program, others or program)]
    for number, (one, other) in enumerate(zip(*runs, strict=False)):
        found = compared(one, other)
        if found is not None:
            return number, found
    return len(runs[0]), None


@pytest.mark.parametrize("rewrite", [list, cut_early, in_one_record])
@pytest.mark.parametrize("function", ["add", "keep", "give", "ask", "pass_on"])
def test_an_honest_program_does_what_its_log_says(
    tmp_path: Path, function: str, rewrite: Callable[[list[bytes]], list[bytes]]
) -> None:
    program = program_with(lambda: 7)
    with written(tmp_path / "log", program, function, rewrite) as log:
        assert parting(log, program) == (5, None)


@pytest.mark.parametrize("draw", [random.random, time.time_ns], ids=["random numbers", "the clock"])
@pytest.mark.parametrize(
    ("function", "cause", "rewrite"),
    [
        ("keep", "bad keep", list),
        ("give", "bad give", list),
        ("ask", "another give", list),
        ("pass_on", "bad pass_on", list),
        ("keep", "bad keep", in_one_record),
        ("give", "bad give", in_one_record),
        ("ask", "another give", in_one_record),
    ],
)
def test_the_function_and_its_request_are_named(
    tmp_path: Path, draw: Callable[[], float], function: str, cause: str, rewrite: Callable[[list[bytes]], list[bytes]]
) -> None:
    program = program_with(draw)
    with written(tmp_path / "log", program, function, rewrite) as log:
        same, found = parting(log, program)
    assert same == 3 and found is not None
    assert (found.epoch, f"{found.key} {found.function}") == (4, cause)
    assert found.request is not None
    assert (found.request.id, found.request.function, found.request.partition) == ("evil", function, 0)
    assert found.request.offset == 3 and found.tid == 4 - 1


@pytest.mark.parametrize(("function", "cause"), [("keep", "keep"), ("give", "give"), ("pass_on", "pass_on")])
def test_a_difference_that_all_runs_share_is_found_against_the_log(tmp_path: Path, function: str, cause: str) -> None:
    """A variable of the program: it is the same in each new process, and was another one when the log was written."""
    numbers = count()
    with written(tmp_path / "log", program_with(lambda: 1000 + next(numbers)), function) as log:
        same, found = parting(log, program_with(lambda: 5))
    assert same == 3 and found is not None
    assert (found.epoch, found.function) == (4, cause)
    assert found.request is not None and found.request.id == "evil"
    assert found.expected != found.found
