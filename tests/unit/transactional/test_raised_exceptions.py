"""A node's reports of exceptions that the program does not declare: where they were raised, once they have counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.txn_stage import Stage
from transactional import Aborted, Context, Operator, Program
from transactional.execution.raised_exceptions import MOST_A_SECOND, RaisedReport
from transactional.requests.requests import WireRequest


class Refused(Exception):
    """Declared."""


def helper(amount: int) -> int:
    return 10 // amount


def program(partitions: int = 2) -> Program:
    box = Operator("box", partitions=partitions)

    @box.register
    async def divide(ctx: Context, amount: int) -> int:
        ctx.put(ctx.get(0) + 1)
        return helper(amount)

    @box.register
    async def ask(ctx: Context, to: str, amount: int) -> int:
        ctx.put(ctx.get(0) + 1)
        return await ctx.call(box, to, "divide", [amount])

    @box.register
    async def catch(ctx: Context, to: str) -> str:
        try:
            return str(await ctx.call(box, to, "divide", [0]))
        except Exception as error:
            return f"caught {error}"

    @box.register
    async def refuse(ctx: Context) -> None:
        raise Refused("no")

    @box.register
    async def hostile(ctx: Context) -> None:
        class Hostile(Exception):
            def __str__(self) -> str:
                raise SystemExit

            __repr__ = __str__

            @property
            def __traceback__(self) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
                raise SystemExit

        raise Hostile("x" * 10_000)

    @box.register
    async def leave(ctx: Context) -> None:
        ctx.abort("enough")

    return Program("boxes", [box], errors=[Refused])


@pytest.fixture
def stage() -> Stage:
    stage = Stage(program())
    stage.start("a")
    return stage


def told(stage: Stage) -> list[RaisedReport]:
    """By all nodes, after some more turns."""
    found: list[RaisedReport] = []
    for _ in range(6):
        stage.turn()
        for driver, _ in stage.nodes.values():
            found += driver.node.ledger.raised.take()
    return found


def far(stage: Stage, key: str) -> str:
    """A key in another partition."""
    place = stage.program.place
    return next(other for other in "bcdefgh" if place("box", other) != place("box", key))


def test_operator_function_key_and_request_are_named_with_the_users_frames(stage: Stage) -> None:
    outcome = stage.call("box", "a", "divide", [0], request_id="order 17")
    assert isinstance(outcome, Aborted) and outcome.kind == "ZeroDivisionError"
    (line,) = told(stage)
    head, *frames = line.own.splitlines()
    assert head.startswith("function divide of operator box, key 'a', raised ZeroDivisionError(")
    assert "which aborts transaction " in head and head.endswith("request 'order 17' (box 'a' divide)")
    assert [row.strip() for row in frames if row.startswith("    ") and "^" not in row and "~" not in row] == [
        "return helper(amount)",
        "return 10 // amount",
    ]
    assert "execution/execution.py" not in line.own and "execution/execution.py" in line.whole


def test_an_exception_of_a_called_function_is_told_where_it_was_raised_and_once(stage: Stage) -> None:
    other = far(stage, "a")
    stage.call("box", "a", "ask", [other, 0], request_id="order 18")
    (line,) = told(stage)
    assert line.own.startswith(f"function divide of operator box, key '{other}', raised ZeroDivisionError(")
    assert "request 'order 18' (box 'a' ask)" in line.own


def test_nothing_of_the_exception_itself_is_called(stage: Stage) -> None:
    stage.call("box", "a", "hostile")
    (line,) = told(stage)
    assert "raised Hostile('xxx" in line.own and "raise Hostile(" in line.own and len(line.own) < 2_000


@pytest.mark.parametrize(
    "call",
    [
        lambda stage: stage.call("box", "a", "catch", [far(stage, "a")]),
        lambda stage: stage.call("box", "a", "refuse"),
        lambda stage: stage.call("box", "a", "leave"),
        lambda stage: stage.call("box", "a", "divide", ["too", "many"]),
        lambda stage: stage.call("box", "a", "nothing"),
    ],
    ids=["caught", "declared", "ctx.abort", "arguments", "unknown function"],
)
def test_what_is_caught_declared_or_says_itself_what_is_wrong_is_not_told(
    stage: Stage, call: Callable[[Stage], object]
) -> None:
    call(stage)
    assert told(stage) == []


def test_a_flood_of_the_same_is_told_now_and_then(stage: Stage) -> None:
    requests = [("box", key, "divide", [0]) for key in "abcdefgh" * 5]
    for operator, key, function, args in requests:
        stage.call(operator, key, function, args)
    seconds = stage.now_ms // 1000 + 1
    assert 1 <= len(told(stage)) <= MOST_A_SECOND * (seconds + 1)


def test_of_a_function_on_another_node_each_says_what_it_knows() -> None:
    stage = Stage(program(partitions=6))
    first, second = stage.start("a"), stage.start("b")
    while not (first.node.partitions and second.node.partitions):
        stage.turn()
    keys = {key: stage.program.place("box", key) for key in "abcdefghijklmnop"}
    here = next(key for key, place in keys.items() if place in first.node.partitions)
    there = next(key for key, place in keys.items() if place in second.node.partitions)
    stage.call("box", here, "ask", [there, 0], request_id="order 19")
    lines = sorted(line.own for line in told(stage))
    assert len(lines) == 2
    assert lines[0].startswith(f"function divide of operator box, key '{there}', raised") and "helper" in lines[0]
    assert lines[1].startswith("transaction ") and f"request 'order 19' (box '{here}' ask), was aborted by" in lines[1]


def test_what_a_conflict_has_run_again_is_told_once_as_it_ended(stage: Stage) -> None:
    """Each reads what the one before writes, so most are run again."""
    other = far(stage, "a")
    pairs = [("a", other), (other, "a")] * 5
    asked = [WireRequest(f"r{n}", "box", key, "ask", [to, n % 3]) for n, (key, to) in enumerate(pairs)]
    stage.client.send_all(asked)
    replies: dict[str, object] = {}
    while len(replies) < len(asked):
        stage.turn()
        stage.client.poll()
        replies |= dict(stage.client.take_all())
    lines = [line.own for line in told(stage)]
    assert sum(isinstance(each, Aborted) for each in replies.values()) == 4
    assert 1 <= len(lines) <= 4 and all("function divide of operator box" in line for line in lines)
    assert len({line.partition("request ")[2].partition("\n")[0] for line in lines}) == len(lines)
    assert stage.nodes["a"][0].node.ledger.raised.take() == []
